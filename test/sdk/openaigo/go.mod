// The clients of openai-go, of which one program is built twice: with the newest version by this file, with the oldest
// that is supported by v3.7.0.mod. A module of its own, so that the product does not depend on an SDK.
module github.com/spillway-dev/spillway/test/sdk/openaigo

go 1.26.0

require github.com/openai/openai-go/v3 v3.99.0

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
)
