package burst

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// Caller makes the one call that a run repeats: the shortest prompt, and one token for an answer.
type Caller struct {
	Client  *http.Client
	URL     string // of the endpoint
	Model   string
	Timeout time.Duration // of a call
	// Prepare adds headers, such as a token.
	Prepare func(*http.Request)
	Now     func() time.Time
}

// maxBody bounds what is read of an answer, which is one token long.
const maxBody = 1 << 20

// body is the same for every call, so that no call is harder than another.
func (c *Caller) body() []byte {
	body, err := json.Marshal(map[string]any{
		"model": c.Model, "max_tokens": 1, "messages": []map[string]string{{"role": "user", "content": "hi"}},
	})
	if err != nil {
		panic(err) // text always marshals
	}
	return body
}

// Call makes one call.
func (c *Caller) Call(ctx context.Context) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	began := c.Now()
	a := c.ask(ctx)
	a.Took = c.Now().Sub(began)
	return a
}

func (c *Caller) ask(ctx context.Context) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(c.body()))
	if err != nil {
		return Answer{Failure: "connection"}
	}
	request.Header.Set("Content-Type", "application/json")
	c.Prepare(request)
	response, err := c.Client.Do(request)
	if err != nil {
		return Answer{Failure: failure(ctx)}
	}
	defer response.Body.Close()
	a := Answer{
		Status: response.StatusCode, Backend: response.Header.Get("X-Spillway-Backend"),
		RetryAfter: response.Header.Get("Retry-After") != "",
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		a.Failure = failure(ctx)
		return a
	}
	a.judge(body)
	return a
}

func failure(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "timeout"
	}
	return "connection"
}

// judge looks into the body: some servers say 200 and mean no.
func (a *Answer) judge(body []byte) {
	var said struct {
		Choices []json.RawMessage `json:"choices"`
		Error   json.RawMessage   `json:"error"`
	}
	_ = json.Unmarshal(body, &said) // what does not fit stays empty
	var object struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(said.Error, &object)
	a.Code = object.Code
	if a.Status/100 == 2 && len(said.Choices) == 0 {
		a.Failure = "no completion"
	}
}
