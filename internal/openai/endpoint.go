package openai

import "github.com/spillway-dev/spillway/internal/sse"

// Endpoint is one of the paths whose requests are routed by model. The zero value is no endpoint.
type Endpoint uint8

// Endpoints.
const (
	ChatCompletions Endpoint = iota + 1
	Completions
	Embeddings
	Responses
	Messages
)

var endpoints = [...]struct{ name, path string }{
	ChatCompletions: {"chat_completions", "/chat/completions"},
	Completions:     {"completions", "/completions"},
	Embeddings:      {"embeddings", "/embeddings"},
	Responses:       {"responses", "/responses"},
	Messages:        {"messages", "/messages"},
}

// EndpointOf returns the endpoint of a caller's path such as "/v1/chat/completions". The match is exact.
func EndpointOf(path string) (Endpoint, bool) {
	for i := ChatCompletions; i <= Messages; i++ {
		if path == i.Path() {
			return i, true
		}
	}
	return 0, false
}

// String is the endpoint's word in metrics, logs and spans, such as "chat_completions".
func (e Endpoint) String() string {
	if int(e) >= len(endpoints) || e == 0 {
		return "unknown"
	}
	return endpoints[e].name
}

// Path is what callers post to, such as "/v1/chat/completions".
func (e Endpoint) Path() string { return "/v1" + e.Suffix() }

// Suffix is what follows a backend's base URL, such as "/chat/completions".
func (e Endpoint) Suffix() string { return endpoints[e].path }

// Streams says whether the dialect knows streams at all: embeddings are always one body.
func (e Endpoint) Streams() bool { return e != Embeddings }

// Converts says whether a JSON answer can be turned into a stream of this dialect and back: chat and text completions.
func (e Endpoint) Converts() bool { return e == ChatCompletions || e == Completions }

// EndsWithDone says whether a whole stream of this dialect ends with a [DONE] event: chat and text completions. The
// others end with an event of their own, which counts as the finish reason.
func (e Endpoint) EndsWithDone() bool { return e.Converts() }

// End is what is missing at the end of a stream whose answer is whole all the same. A response has told its end then.
func (e Endpoint) End() string {
	switch {
	case e.EndsWithDone():
		return sse.Done
	case e == Messages:
		return "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	return ""
}
