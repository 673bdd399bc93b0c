package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Config says what a backend answers. Zero values of Model, Tokens, RetryAfter and Mode mean the defaults.
type Config struct {
	Name       string        // the first word of every answer
	Model      string        // what /v1/models lists; default Name
	Tokens     int           // length of an answer unless the request asks for less; default 8
	Interval   time.Duration // between two tokens; 0 sends them at once
	SlowDelay  time.Duration // to the first token, in mode Slow
	RetryAfter time.Duration // in mode Refuse, sent in whole seconds; default 1s
	Mode       Mode          // to start in; default Idle
}

// Backend is the simulated server. All of its methods may be called at any time from any goroutine.
type Backend struct {
	config   Config
	counters counters
	closed   chan struct{} // ends the requests that hang
	mux      *http.ServeMux
}

// New returns a backend that is ready to serve. Close it to end the requests that hang.
func New(config Config) *Backend {
	config.Model = cmp.Or(config.Model, config.Name)
	config.Tokens = cmp.Or(config.Tokens, 8)
	config.RetryAfter = cmp.Or(config.RetryAfter, time.Second)
	b := &Backend{config: config, closed: make(chan struct{}), mux: http.NewServeMux()}
	b.SetMode(cmp.Or(config.Mode, Idle))
	for path, d := range map[string]*dialect{
		"/v1/chat/completions": &chatCompletions, "/v1/completions": &textCompletions, "/v1/embeddings": &embeddings,
		"/v1/responses": &responses, "/v1/messages": &messages,
	} {
		b.mux.HandleFunc("POST "+path, b.in(d))
	}
	b.mux.HandleFunc("GET /v1/models", b.models)
	b.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	b.mux.HandleFunc("GET /mode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, b.Mode()) })
	b.mux.HandleFunc("POST /mode", b.postMode)
	b.mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, b.Stats())
	})
	b.mux.HandleFunc("POST /stats/reset", func(w http.ResponseWriter, _ *http.Request) {
		b.ResetStats()
		w.WriteHeader(http.StatusNoContent)
	})
	return b
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.mux.ServeHTTP(w, r) }

// Close ends the requests that hang, by cutting their connections. It must be called once.
func (b *Backend) Close() { close(b.closed) }

// SetMode switches how requests that arrive from now on are treated.
func (b *Backend) SetMode(m Mode) { b.counters.update(func(s *Stats) { s.Mode = m }) }

// Mode returns the mode that is on.
func (b *Backend) Mode() Mode { return b.counters.snapshot().Mode }

// Stats returns what the backend has seen.
func (b *Backend) Stats() Stats { return b.counters.snapshot() }

// ResetStats zeroes the counts; the mode and what is in flight stay.
func (b *Backend) ResetStats() { b.counters.reset() }

func (b *Backend) postMode(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("mode")
	if name == "" {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<10))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name = string(body)
	}
	mode, err := ParseMode(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.SetMode(mode)
	fmt.Fprintln(w, mode)
}

func (b *Backend) models(w http.ResponseWriter, r *http.Request) {
	b.counters.endpoint(r.URL.Path)
	if b.Mode() == Down {
		reset(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"object": "list",
		"data":   []any{map[string]any{"id": b.config.Model, "object": "model", "owned_by": "simbackend"}},
	})
}

// settle answers in the modes whose answer is one short sentence, and says whether it did.
func (b *Backend) settle(w http.ResponseWriter, mode Mode) bool {
	switch mode {
	case Down:
		reset(w)
	case Error:
		writeError(w, http.StatusInternalServerError, "server_error", "simulated failure")
	case Refuse:
		w.Header().Set("Retry-After", strconv.Itoa(int(b.config.RetryAfter.Seconds())))
		writeError(w, http.StatusTooManyRequests, "rate_limit_exceeded", "simulated limit")
	case Loading:
		writeError(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
	default:
		return false
	}
	return true
}

// reset closes the connection so that the caller sees a reset and not an orderly end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2: the stream is reset instead
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0) // a failure leaves an orderly close, which is an error to the caller too
	}
	_ = conn.Close()
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller has left; nobody to tell
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	writeJSON(w, status, errorBody(kind, message))
}

func errorBody(kind, message string) map[string]any {
	return map[string]any{"error": map[string]any{"message": message, "type": kind, "code": kind, "param": nil}}
}
