package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// postTo sends a body to another endpoint.
func (r *rig) postTo(path, body string) answer {
	r.t.Helper()
	resp, err := r.client.Post(r.server.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return finish(resp)
}

func TestOtherDialectsPassThrough(t *testing.T) {
	const embedding = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}`
	responses := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"status\":\"in_progress\"}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"status\":\"completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n"
	messages := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n" +
		"event: ping\ndata: {\"type\":\"ping\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	completion := `data: {"id":"c","object":"text_completion","model":"m","choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}` + "\n\n"
	cases := map[string]struct {
		path, body, answer, want string
	}{
		"embeddings":                   {"/v1/embeddings", `{"model":"ns/m","input":"x"}`, status(200, "", embedding), embedding},
		"embeddings never stream":      {"/v1/embeddings", `{"model":"ns/m","input":"x","stream":true}`, status(200, "", embedding), embedding},
		"a stream of responses":        {"/v1/responses", `{"model":"ns/m","input":"x","stream":true}`, sseHead + responses, responses},
		"a stream of messages":         {"/v1/messages", `{"model":"ns/m","messages":[],"stream":true}`, sseHead + messages, messages},
		"a stream of completions":      {"/v1/completions", `{"model":"ns/m","prompt":"x","stream":true}`, sseHead + completion + done, completion + done},
		"completions without a [DONE]": {"/v1/completions", `{"model":"ns/m","prompt":"x","stream":true}`, sseHead + completion, completion + done},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := says(t, tc.answer)
			r := newRig(t, newRoute(u))
			got := r.postTo(tc.path, tc.body)
			if diff := cmp.Diff(tc.want, events(got.body)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if seen := u.requests()[0]; seen.target != tc.path {
				t.Errorf("target %q", seen.target)
			}
			if learnedBy(r.breakers, "a") != clean {
				t.Errorf("breaker %+v", learnedBy(r.breakers, "a"))
			}
		})
	}
	t.Run("the wrong form is no answer where it cannot be converted", func(t *testing.T) {
		r := newRig(t, newRoute(says(t, sseHead+responses), says(t, sseHead+responses)))
		if got := toldBy(t, r.postTo("/v1/responses", `{"model":"ns/m","input":"x"}`)); got.Code != "response_validation_failed" {
			t.Errorf("error %+v", got)
		}
		whole := status(200, "", `{"id":"r","output":[]}`)
		r = newRig(t, newRoute(says(t, whole), says(t, whole)))
		if got := toldBy(t, r.postTo("/v1/responses", `{"model":"ns/m","input":"x","stream":true}`)); got.Code != "response_validation_failed" {
			t.Errorf("a body for a stream: error %+v", got)
		}
	})
	t.Run("an endpoint that is missing does not stop the others", func(t *testing.T) {
		u := newUpstream(t, func(n int, w *wire) {
			if n == 0 {
				w.send(status(404, "", `{}`))
			} else {
				w.send(status(200, "", whole))
			}
		})
		r := newRig(t, newRoute(u))
		if got := toldBy(t, r.postTo("/v1/embeddings", `{"model":"ns/m","input":"x"}`)); got.Code != "upstream_misconfigured" {
			t.Errorf("error %+v", got)
		}
		if got := r.post(unary); got.status != 200 {
			t.Errorf("chat: %d %s", got.status, got.body)
		}
	})
}

func TestCompressedAnswersAreDecoded(t *testing.T) {
	cases := map[string]struct {
		coding string
		encode func(string) []byte
	}{"gzip": {"gzip", zipped}, "zstd": {"zstd", zstded}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(n int, w *wire) {
				if n == 0 {
					w.send(status(200, "Content-Encoding: "+tc.coding+"\r\n", string(tc.encode(whole))))
				} else {
					w.send(strings.Replace(sseHead, "\r\n\r\n", "\r\nContent-Encoding: "+tc.coding+"\r\n\r\n", 1), string(tc.encode(c("a")+fin+done)))
				}
			})
			r := newRig(t, newRoute(u))
			if got := r.post(unary); got.body != whole || got.header.Get("Content-Encoding") != "" {
				t.Errorf("body %q, header %v", got.body, got.header)
			}
			if got := r.post(streamed); events(got.body) != c("a")+fin+done || got.header.Get("Content-Encoding") != "" {
				t.Errorf("stream %q, header %v", got.body, got.header)
			}
		})
	}
}

// A stream that runs while its chain is edited ends whole; the next request takes the new one.
func TestTableChangesUnderARunningStream(t *testing.T) {
	edited := make(chan struct{})
	a := newUpstream(t, func(_ int, w *wire) {
		w.send(sseHead, c("one"))
		<-edited
		w.send(c("two"), fin, done)
	})
	b := says(t, sseHead, c("b"), fin, done)
	r := newRig(t, newRoute(a))
	resp := r.start(streamed)
	in := bufio.NewReader(resp.Body)
	first := readUntil(t, in, "data:")
	r.store.Set(table.New([]*table.Route{newRoute(b)}))
	for range 100 { // unrelated edits
		r.store.Set(table.New([]*table.Route{newRoute(b), {Namespace: "ns", Name: "other", Model: "other"}}))
	}
	if got := r.post(streamed); events(got.body) != c("b")+fin+done {
		t.Errorf("the next request got %q", got.body)
	}
	close(edited)
	resp.Body = rest{in, resp.Body}
	if got := events(first + finish(resp).body); got != c("one")+c("two")+fin+done {
		t.Errorf("the running stream got %q", got)
	}
}

// The end of a stream's body may come after its last event. It is waited for, so that the connection can be used again.
func TestConnectionOfAStreamIsUsedAgainWhereItsBodyEndsLate(t *testing.T) {
	const requests = 10
	var opened atomic.Int64
	read := make(chan struct{}, requests)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, c("a")+fin+done)
		_ = http.NewResponseController(w).Flush()
		<-read
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	defer close(read)
	route := newRoute(says(t))
	route.Chain[0].BaseURL = s.URL
	r := newRig(t, route)
	for range requests {
		if got := r.post(streamed); !strings.HasSuffix(got.body, done) {
			t.Fatalf("status %d: %s", got.status, got.body)
		}
		read <- struct{}{}
	}
	if n := opened.Load(); n == requests {
		t.Errorf("each of %d requests opened a connection", n)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		switch {
		case strings.Contains(string(body), "reject"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
		case strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, c("a")+fin+done)
			_ = http.NewResponseController(w).Flush()
		default:
			_, _ = io.WriteString(w, whole)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	route := newRoute(says(t))
	route.Chain[0].BaseURL = s.URL
	r := newRig(t, route)
	for range 10 {
		for _, body := range []string{unary, streamed, `{"model":"ns/m","x":"reject"}`} {
			if got := r.post(body); got.status != 200 && got.status != 400 {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
		}
	}
	// A stream's connection comes back a moment after its last event, so the next request may need another.
	if n := opened.Load(); n > 4 {
		t.Errorf("30 requests in a row opened %d connections", n)
	}
}
