package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
)

// proxy stands for a Spillway proxy: one backend is busy, the next one answers.
func proxy() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `: {"state":"attempt","n":1,"of":2,"backend":"tower","regime":"contended"}
: {"state":"backend_saturated","backend":"tower","failing_over":true}
: {"state":"attempt","n":2,"of":2,"backend":"hosted","regime":"hosted"}
: {"state":"upstream_started","backend":"hosted","n":2,"reason":"saturated"}
data: {"id":"chatcmpl-1","model":"sirens-echo/default","choices":[{"index":0,"delta":{"role":"assistant","content":"Par"}}]}

data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"is"},"finish_reason":"stop"}]}

data: [DONE]

`)
	}))
}

// A turn may take ten minutes in all, but not be silent for more than thirty seconds.
func Example() {
	server := proxy()
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	body := strings.NewReader(`{"model":"sirens-echo/default","stream":true,"messages":[{"role":"user","content":"Capital of France?"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", body)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	reader := stream.Open(ctx, resp, stream.Options{Idle: 30 * time.Second})
	defer reader.Close()

	for {
		ev, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, stream.ErrSilent):
			fmt.Println("nothing for 30 s: worth another try")
			return
		case err != nil:
			fmt.Println("given up:", err)
			return
		case ev.Heartbeat != nil:
			fmt.Println(ev.Heartbeat.State, ev.Heartbeat.Backend)
		default:
			fmt.Println(len(ev.Data), "bytes of data")
		}
	}
	// Output:
	// attempt tower
	// backend_saturated tower
	// attempt hosted
	// upstream_started hosted
	// 118 bytes of data
	// 91 bytes of data
}

// Collect assembles the whole answer.
func ExampleReader_Collect() {
	server := proxy()
	defer server.Close()

	resp, err := http.Post(server.URL, "application/json", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	reader := stream.Open(context.Background(), resp, stream.Options{Idle: 30 * time.Second})
	defer reader.Close()

	completion, err := reader.Collect(func(ev stream.Event) {
		if h := ev.Heartbeat; h != nil && h.State == stream.StateUpstreamStarted {
			fmt.Println("served by", h.Backend, "because", h.Reason)
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(completion.Choices[0].Message.Text())
	// Output:
	// served by hosted because saturated
	// Paris
}

// An Assembler works on the data of any stream of chat completion chunks.
func ExampleAssembler() {
	var a stream.Assembler
	for _, data := range []string{
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"weather","arguments":"{\"in\":"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Paris\"}"}}]},"finish_reason":"tool_calls"}]}`,
	} {
		if err := a.Add([]byte(data)); err != nil {
			fmt.Println(err)
			return
		}
	}
	completion, err := a.Completion()
	if err != nil {
		fmt.Println(err)
		return
	}
	choice := completion.Choices[0]
	fmt.Println(choice.FinishReason, choice.Message.ToolCalls[0].Function.Name, choice.Message.ToolCalls[0].Function.Arguments)
	// Output:
	// tool_calls weather {"in":"Paris"}
}

// Where events are read by other means, a comment's text is all that is needed.
func ExampleParseHeartbeat() {
	for _, comment := range []string{`{"state":"queued","backend":"tower","position":3}`, "OPENROUTER PROCESSING"} {
		if h, ok := stream.ParseHeartbeat([]byte(comment)); ok {
			fmt.Println(h.State, h.Backend, h.Position)
		}
	}
	// Output:
	// queued tower 3
}

// What the server says went wrong is an *Error, within a stream as well as instead of one.
func ExampleError() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `: {"state":"queued","backend":"tower","position":1}
data: {"error":{"message":"the backend tower has no capacity now","type":"overloaded_error","code":"backend_saturated","retry_after_ms":30000}}

`)
	}))
	defer server.Close()

	resp, err := http.Post(server.URL, "application/json", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	reader := stream.Open(context.Background(), resp, stream.Options{Idle: 30 * time.Second})
	defer reader.Close()

	_, err = reader.Collect(nil)
	var told *stream.Error
	if errors.As(err, &told) {
		fmt.Println(told.Code, "try again in", told.RetryAfter)
	}
	// Output:
	// backend_saturated try again in 30s
}
