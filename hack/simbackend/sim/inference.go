package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBody bounds a request body: the proxy's own default.
const maxBody = 32 << 20

// chatRequest is what of a request decides the answer.
type chatRequest struct {
	Model               string `json:"model"`
	Stream              bool   `json:"stream"`
	MaxTokens           *int   `json:"max_tokens"`
	MaxCompletionTokens *int   `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// limit is the number of tokens that the caller wants at most; 0 for no limit.
func (r chatRequest) limit() int {
	for _, n := range []*int{r.MaxCompletionTokens, r.MaxTokens} {
		if n != nil && *n > 0 {
			return *n
		}
	}
	return 0
}

func (b *Backend) chat(w http.ResponseWriter, r *http.Request) {
	b.counters.endpoint(r.URL.Path)
	mode := b.Mode()
	// The whole body is read before anything else: net/http notices that a caller leaves only after that.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body cannot be read")
		return
	}
	var request chatRequest
	if err := json.Unmarshal(body, &request); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body is not valid JSON")
		return
	}
	defer b.counters.begin(request.limit() == 1)()
	if b.settle(w, mode) {
		return
	}
	a := &answer{backend: b, w: w, request: request}
	switch err := a.give(r.Context(), mode); {
	case errors.Is(err, errClosed):
		panic(http.ErrAbortHandler) // cuts the connection: an orderly end would look like an answer
	case err != nil:
		b.counters.update(func(s *Stats) { s.Cancelled++ })
	}
}

// errClosed says that the backend was closed while a request hung.
var errClosed = errors.New("backend closed")

// answer is one chat completion on its way to the caller.
type answer struct {
	backend *Backend
	w       http.ResponseWriter
	request chatRequest
}

// give answers as the mode says. It fails where the caller left before the end, or the backend was closed.
func (a *answer) give(ctx context.Context, mode Mode) error {
	switch mode {
	case Busy:
		return a.backend.hang(ctx)
	case BusyHeaders:
		return a.headersOnly(ctx)
	case ErrorEvent:
		return a.errorInstead()
	case Slow:
		if err := a.backend.wait(ctx, a.backend.config.SlowDelay); err != nil {
			return err
		}
	}
	if a.request.Stream {
		return a.stream(ctx)
	}
	return a.whole(ctx)
}

func (a *answer) headersOnly(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	return a.backend.hang(ctx)
}

func (a *answer) errorInstead() error {
	body := errorBody("server_error", "simulated failure")
	if a.request.Stream {
		return a.event(body)
	}
	writeJSON(a.w, http.StatusOK, body)
	return nil
}

// begin sends the headers and, on a stream, the chunk that names the role and carries no token yet.
func (a *answer) begin() error {
	if a.request.Stream {
		return a.chunk(map[string]string{"role": "assistant", "content": ""}, nil)
	}
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(http.StatusOK)
	return http.NewResponseController(a.w).Flush()
}

func (a *answer) stream(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	tokens, finish := a.tokens()
	for i, token := range tokens {
		if err := a.pause(ctx, i); err != nil {
			return err
		}
		if err := a.chunk(map[string]string{"content": token}, nil); err != nil {
			return err
		}
		a.backend.counters.update(func(s *Stats) { s.Tokens++ })
	}
	if err := a.chunk(map[string]string{}, &finish); err != nil {
		return err
	}
	if a.request.StreamOptions.IncludeUsage {
		last := a.envelope("chat.completion.chunk", []any{})
		last["usage"] = usage(len(tokens))
		if err := a.event(last); err != nil {
			return err
		}
	}
	_, err := io.WriteString(a.w, "data: [DONE]\n\n")
	return err
}

// whole takes as long as the stream would and then answers at once.
func (a *answer) whole(ctx context.Context) error {
	tokens, finish := a.tokens()
	for i := range tokens {
		if err := a.pause(ctx, i); err != nil {
			return err
		}
	}
	body := a.envelope("chat.completion", []any{map[string]any{
		"index":         0,
		"message":       map[string]string{"role": "assistant", "content": strings.Join(tokens, "")},
		"finish_reason": finish,
	}})
	body["usage"] = usage(len(tokens))
	a.backend.counters.update(func(s *Stats) { s.Tokens += len(tokens) })
	writeJSON(a.w, http.StatusOK, body)
	return nil
}

// tokens are "tower", " says", " hello", " 4", " 5" and so on, with the reason why they end where they do.
func (a *answer) tokens() (tokens []string, finish string) {
	n, finish := a.backend.config.Tokens, "stop"
	if limit := a.request.limit(); limit > 0 && limit < n {
		n, finish = limit, "length"
	}
	for i := range n {
		switch i {
		case 0:
			tokens = append(tokens, a.backend.config.Name)
		case 1:
			tokens = append(tokens, " says")
		case 2:
			tokens = append(tokens, " hello")
		default:
			tokens = append(tokens, fmt.Sprintf(" %d", i+1))
		}
	}
	return tokens, finish
}

// pause waits before every token but the first.
func (a *answer) pause(ctx context.Context, token int) error {
	if token == 0 {
		return ctx.Err()
	}
	return a.backend.wait(ctx, a.backend.config.Interval)
}

func (a *answer) chunk(delta map[string]string, finish *string) error {
	return a.event(a.envelope("chat.completion.chunk", []any{
		map[string]any{"index": 0, "delta": delta, "finish_reason": finish},
	}))
}

func (a *answer) envelope(object string, choices []any) map[string]any {
	return map[string]any{
		"id": "chatcmpl-" + a.backend.config.Name, "object": object, "created": 0, "model": a.request.Model, "choices": choices,
	}
}

// event sends one SSE event at once. The first one sends the headers too.
func (a *answer) event(body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", raw); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

func usage(completion int) map[string]int {
	const prompt = 7 // nobody counts the prompt
	return map[string]int{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
}

// wait returns nil after d, the context's error when the caller leaves, and errClosed when the backend closes first.
func (b *Backend) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return b.until(ctx, timer.C)
}

// hang is wait without an end of its own.
func (b *Backend) hang(ctx context.Context) error { return b.until(ctx, nil) }

func (b *Backend) until(ctx context.Context, timer <-chan time.Time) error {
	select {
	case <-timer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.closed:
		return errClosed
	}
}
