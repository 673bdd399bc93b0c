// See go.mod: the same program with the oldest version of openai-go that is supported (go build -modfile=v3.7.0.mod).
module github.com/spillway-dev/spillway/test/sdk/openaigo

go 1.26.0

require github.com/openai/openai-go/v3 v3.7.0

require (
	github.com/tidwall/gjson v1.14.4 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
)
