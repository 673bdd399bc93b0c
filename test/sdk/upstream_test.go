package sdk

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// script is what a backend does with one request.
type script func(c *call)

// call is one request in the hands of a script.
type call struct {
	dialect *dialect
	n       int // how many requests came before this one
	w       http.ResponseWriter
	r       *http.Request
	tap     *tap // nil where the client asks directly
}

// open begins a stream.
func (c *call) open() {
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.send("")
}

// send writes each piece by itself.
func (c *call) send(pieces ...string) {
	for _, piece := range pieces {
		_, _ = io.WriteString(c.w, piece) // the proxy may have left
		_ = http.NewResponseController(c.w).Flush()
	}
}

// beats goes on when the client has been sent n more heartbeats; there are none without the proxy.
func (c *call) beats(n int) {
	if c.tap != nil {
		c.tap.await(c.r.Context(), n)
	}
}

// silence says nothing until the proxy leaves.
func (c *call) silence() { <-c.r.Context().Done() }

// cut ends the connection in the middle of the answer.
func (c *call) cut() { panic(http.ErrAbortHandler) }

// answer is a whole answer. header is a list of names and values.
func (c *call) answer(status int, body string, header ...string) {
	c.w.Header().Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		c.w.Header().Set(header[i], header[i+1])
	}
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, body)
}

// backend is a script with the requests that it has seen.
type backend struct {
	dialect *dialect
	script  script
	tap     *tap

	mu   sync.Mutex
	seen int
}

func (b *backend) next() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen++
	return b.seen - 1
}

// upstream serves all scripted backends, each below a path of its own, so that each has a breaker of its own.
type upstream struct {
	server *httptest.Server

	mu       sync.Mutex
	backends map[string]*backend
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{backends: map[string]*backend{}}
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.server.CloseClientConnections() // scripts that still wait end with their requests
		u.server.Close()
	})
	return u
}

// add serves b below a path, such as "/c7/a", and returns its URL.
func (u *upstream) add(path string, b *backend) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.backends[path] = b
	return u.server.URL + path
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _, _ := strings.Cut(r.URL.Path, "/v1/")
	u.mu.Lock()
	b := u.backends[path]
	u.mu.Unlock()
	if b == nil || r.URL.Path != path+"/v1"+b.dialect.suffix {
		http.Error(w, "no script for this path", http.StatusTeapot)
		return
	}
	request, _ := io.ReadAll(r.Body) // a request that is cut shows in its context
	if r.Context().Err() == nil && !bytes.Contains(request, []byte(b.dialect.asks)) {
		http.Error(w, "no "+b.dialect.asks+" in the request", http.StatusTeapot)
		return
	}
	b.script(&call{dialect: b.dialect, n: b.next(), w: w, r: r, tap: b.tap})
}
