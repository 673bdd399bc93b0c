package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxBody bounds a request body: the proxy's own default.
const maxBody = 32 << 20

// inferenceRequest is what of a request decides the answer, in all dialects.
type inferenceRequest struct {
	Model               string          `json:"model"`
	Stream              bool            `json:"stream"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MaxOutputTokens     *int            `json:"max_output_tokens"`
	Input               json.RawMessage `json:"input"`
	EncodingFormat      string          `json:"encoding_format"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// limit is the number of tokens that the caller wants at most; 0 for no limit.
func (r inferenceRequest) limit() int {
	for _, n := range []*int{r.MaxCompletionTokens, r.MaxOutputTokens, r.MaxTokens} {
		if n != nil && *n > 0 {
			return *n
		}
	}
	return 0
}

// in answers requests in a dialect.
func (b *Backend) in(d *dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { b.infer(d, w, r) }
}

func (b *Backend) infer(d *dialect, w http.ResponseWriter, r *http.Request) {
	b.counters.endpoint(r.URL.Path)
	mode := b.Mode()
	// The whole body is read before anything else: net/http notices that a caller leaves only after that.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body cannot be read")
		return
	}
	var request inferenceRequest
	if err := json.Unmarshal(body, &request); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "the body is not valid JSON")
		return
	}
	defer b.counters.begin(request.limit() == 1)()
	if b.settle(w, mode) {
		return
	}
	a := &answer{backend: b, w: w, request: request, dialect: d}
	switch err := a.give(r.Context(), mode); {
	case errors.Is(err, errClosed):
		panic(http.ErrAbortHandler) // cuts the connection: an orderly end would look like an answer
	case err != nil:
		b.counters.update(func(s *Stats) { s.Cancelled++ })
	}
}

// errClosed says that the backend was closed while a request hung.
var errClosed = errors.New("backend closed")

// answer is one on its way to the caller.
type answer struct {
	backend *Backend
	w       http.ResponseWriter
	request inferenceRequest
	dialect *dialect
}

// streams says whether the answer is a stream.
func (a *answer) streams() bool { return a.request.Stream && a.dialect.token != nil }

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
	if a.streams() {
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
	if a.streams() {
		return a.send(event{data: body})
	}
	writeJSON(a.w, http.StatusOK, body)
	return nil
}

// begin sends the headers and, on a stream, what stands before the first token, such as a chunk that names the role.
func (a *answer) begin() error {
	if a.streams() {
		return a.send(a.dialect.begin(a)...)
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
		if err := a.send(a.dialect.token(a, token)...); err != nil {
			return err
		}
		a.backend.counters.update(func(s *Stats) { s.Tokens++ })
	}
	err := a.send(a.dialect.end(a, tokens, finish)...)
	if err == nil && a.dialect.done {
		_, err = io.WriteString(a.w, "data: [DONE]\n\n")
	}
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
	a.backend.counters.update(func(s *Stats) { s.Tokens += len(tokens) })
	writeJSON(a.w, http.StatusOK, a.dialect.whole(a, tokens, finish))
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

// send sends SSE events at once. The first time it sends the headers too.
func (a *answer) send(events ...event) error {
	a.w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		raw, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		if e.name != "" {
			fmt.Fprintf(a.w, "event: %s\n", e.name)
		}
		if _, err := fmt.Fprintf(a.w, "data: %s\n\n", raw); err != nil {
			return err
		}
	}
	return http.NewResponseController(a.w).Flush()
}

// prompt is the size of every prompt: nobody counts it.
const prompt = 7

func usage(completion int) map[string]int {
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
