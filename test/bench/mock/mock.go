package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// silence ends the answers that say nothing, so that a forgotten request ends too.
const silence = 2 * time.Minute

// Stats says what the callers of a backend do.
type Stats struct {
	Active int64 `json:"active"` // requests that are being answered
	Left   int64 `json:"left"`   // callers that left before the end of their answer
	LeftAt int64 `json:"leftAt"` // when the last of them was seen leaving, in nanoseconds since 1970
}

// Backend is an http.Handler. The zero value is ready.
type Backend struct{ active, left, leftAt atomic.Int64 }

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		b.chat(w, r)
	case "/stats":
		_ = json.NewEncoder(w).Encode(Stats{Active: b.active.Load(), Left: b.left.Load(), LeftAt: b.leftAt.Load()})
	case "/health": // green whatever happens: health is not capacity
		_, _ = io.WriteString(w, "ok")
	default:
		http.NotFound(w, r)
	}
}

var errModel = errors.New("no model of this backend: see the package comment")

// behaviour is what a model's name asks for.
type behaviour struct {
	chunks int // 0: no stream
	every  time.Duration
	fault  string
}

func parseModel(model string) (behaviour, error) {
	name := model[strings.LastIndexByte(model, '/')+1:]
	switch name {
	case "unary":
		return behaviour{}, nil
	case "no-headers", "headers-only", "role-only", "comments":
		return behaviour{fault: name}, nil
	}
	chunks, ms, ok := strings.Cut(strings.TrimPrefix(name, "s"), "x")
	n, err := strconv.Atoi(chunks)
	every, err2 := strconv.Atoi(ms)
	if !ok || errors.Join(err, err2) != nil || n <= 0 {
		return behaviour{}, errModel
	}
	return behaviour{chunks: n, every: time.Duration(every) * time.Millisecond}, nil
}

func (b *Backend) chat(w http.ResponseWriter, r *http.Request) {
	b.active.Add(1)
	defer b.active.Add(-1)
	var request struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	do, errName := parseModel(request.Model)
	if err := errors.Join(err, errName); err != nil {
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, err), http.StatusBadRequest)
		return
	}
	switch {
	case do.fault != "":
		fault(w, r, do.fault)
	case request.Stream && do.chunks > 0:
		stream(w, r, do)
	default:
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(completion)
	}
	if r.Context().Err() != nil {
		b.leftAt.Store(time.Now().UnixNano())
		b.left.Add(1)
	}
}

// completion is what a caller gets that wants no stream.
var completion = fmt.Appendf(nil, `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,`+
	`"message":{"role":"assistant","content":%q},"logprobs":null,"finish_reason":"stop"}],`+
	`"usage":{"prompt_tokens":120,"completion_tokens":150,"total_tokens":270},"system_fingerprint":"mock"}`,
	strings.Repeat("Words that a model may well have said. ", 18))
