package fleet

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Behaviours of a backend.
const (
	well   = "well"   // answers
	silent = "silent" // accepts and says nothing
	full   = "full"   // refuses: 429
	held   = "held"   // begins an answer and goes on until its caller leaves
)

// backends is all backends of the suite behind one address; which one is meant, the query of its URL says.
type backends struct {
	*httptest.Server
	mu    sync.Mutex
	modes map[string]string
	seen  map[string]*seen
}

// seen is what a backend got.
type seen struct{ calls, probes, inFlight int }

func newBackends() *backends {
	b := &backends{modes: map[string]string{}, seen: map[string]*seen{}}
	b.Server = httptest.NewServer(b)
	return b
}

func (b *backends) url(name string) string { return b.URL + "/v1?b=" + name }

func (b *backends) set(name, mode string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.modes[name] = mode
}

func (b *backends) of(name string) seen {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.seen[name]; s != nil {
		return *s
	}
	return seen{}
}

func (b *backends) enter(name string, probe bool) (mode string, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.seen[name]
	if s == nil {
		s = &seen{}
		b.seen[name] = s
	}
	if probe {
		s.probes++
	} else {
		s.calls++
	}
	s.inFlight++
	return b.modes[name], func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.inFlight--
	}
}

// ServeHTTP implements http.Handler.
func (b *backends) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // who left is no matter
	probe := strings.Contains(string(body), `"max_tokens":1`) || strings.Contains(string(body), `"max_completion_tokens":1`)
	mode, leave := b.enter(r.URL.Query().Get("b"), probe)
	defer leave()
	switch mode {
	case silent:
		<-r.Context().Done()
		return
	case full:
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`+"\n\n", delta, finish)
		_ = http.NewResponseController(w).Flush() // fails where the caller has left
	}
	chunk(`"content":"ok"`, "null")
	if mode == held {
		<-r.Context().Done()
	}
	chunk("", `"stop"`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
