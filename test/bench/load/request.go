package load

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// promptBytes is the size of the user message of every request.
const promptBytes = 512

// errNotLoopback keeps a mistyped address from putting load on somebody else's machine.
var errNotLoopback = errors.New("the load generator talks to loopback addresses only")

// Request is what is sent, again and again. It is immutable.
type Request struct {
	addr   string
	bytes  []byte
	stream bool
	chunks int
}

// Stream says that a request asks for a stream whose whole answer has this many chunks of content; 0 asks for one body.
type Stream int

// NewRequest returns a chat completion for a model, to be sent to an address such as 127.0.0.1:8080.
func NewRequest(addr, model string, stream Stream) (*Request, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("%w: %q", errNotLoopback, addr)
	}
	r := &Request{addr: addr, stream: stream > 0, chunks: int(stream)}
	accept, options := "application/json", ""
	if r.stream {
		accept, options = "text/event-stream", `,"stream_options":{"include_usage":true}`
	}
	prompt := strings.Repeat("lorem ipsum ", promptBytes/12+1)[:promptBytes]
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"You are a benchmark."},{"role":"user","content":%q}],`+
		`"stream":%t,"temperature":0.2,"max_tokens":256%s}`, model, prompt, r.stream, options)
	r.bytes = fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Authorization: Bearer test\r\nUser-Agent: bench\r\nAccept: %s\r\n\r\n%s", addr, len(body), accept, body)
	return r, nil
}
