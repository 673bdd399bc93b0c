package proxy_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

const chatPath = "/v1/chat/completions"

// counted says whether a sample is exposed, given as it stands in the text format.
func (r *rig) counted(sample string) bool { return strings.Contains(r.exposed(), "\n"+sample+"\n") }

// exposed is all that the metrics say.
func (r *rig) exposed() string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r.metrics, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestBackendSeesItsCallerLeave(t *testing.T) {
	cases := map[string]struct {
		sent []string
		body string
	}{
		"before the header":              {body: streamed},
		"after the header":               {sent: []string{sseHead}, body: streamed},
		"after the role chunk":           {sent: []string{sseHead, role}, body: streamed},
		"within the answer":              {sent: []string{sseHead, role, c("one")}, body: streamed},
		"within an event":                {sent: []string{sseHead, c("one"), c("two")[:20]}, body: streamed},
		"before the header, no stream":   {body: unary},
		"within the body, not streaming": {sent: []string{"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"}, body: unary},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{})
			a := newUpstream(t, func(_ int, w *wire) {
				w.send(tc.sent...)
				close(arrived)
				w.silence() // fails the test when nobody leaves
			})
			b := says(t, status(200, "", whole))
			r := newRig(t, newRoute(a, b))
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+chatPath, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			left := make(chan struct{})
			go func() {
				defer close(left)
				if resp, err := r.client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			<-arrived
			leave()
			<-left
			waitFor(t, func() bool { return strings.Contains(r.log.String(), `"code":499`) })
			if b.count() != 0 {
				t.Error("another backend was asked for a caller that had left")
			}
			if got := learnedBy(r.breakers, "a"); got != clean {
				t.Errorf("breaker %+v, want nothing held against the backend", got)
			}
		})
	}
}

func TestCallerThatStopsReadingIsDropped(t *testing.T) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(_ int, w *wire) {
				w.send(sseHead)
				big := c(strings.Repeat("x", 1<<20))
				for {
					select {
					case <-w.gone:
						return
					default:
						w.send(big)
					}
				}
			})
			r := newRig(t, newRoute(a), func(c *proxy.Config) { c.WriteTimeout = 100 * time.Millisecond })
			server, client := r.server, r.client
			if name == "HTTP/2" {
				server, client = secondServer(t, r)
			}
			resp, err := client.Post(server.URL+chatPath, "application/json", strings.NewReader(streamed))
			waitFor(t, func() bool { return strings.Contains(r.log.String(), `"code":499`) })
			if err == nil { // on a busy machine the end may overtake the header within the client
				_ = resp.Body.Close()
			}
		})
	}
}

// secondServer serves the rig's proxy over TLS and HTTP/2.
func secondServer(t *testing.T, r *rig) (*httptest.Server, *http.Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(r.proxy.Handler())
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, s.Client()
}

func TestStreamsOutliveTheWriteTimeout(t *testing.T) {
	for _, name := range []string{"HTTP/1.1", "HTTP/2"} {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(_ int, w *wire) {
				w.pause(100 * time.Millisecond)
				w.send(sseHead, role)
				for range 4 {
					w.pause(60 * time.Millisecond)
					w.send(c("x"))
				}
				w.send(fin, done)
			})
			r := newRig(t, newRoute(a), func(c *proxy.Config) { c.WriteTimeout = 50 * time.Millisecond })
			server, client := r.server, r.client
			if name == "HTTP/2" {
				server, client = secondServer(t, r)
			}
			resp, err := client.Post(server.URL+chatPath, "application/json", strings.NewReader(streamed))
			if err != nil {
				t.Fatal(err)
			}
			if got := finish(resp); got.err != nil || events(got.body) != role+strings.Repeat(c("x"), 4)+fin+done {
				t.Errorf("stream %q, error %v", got.body, got.err)
			}
		})
	}
}

// sizes are requests of which plain takes the first and http.Transport the second.
var sizes = map[string]string{
	"a small request": unary,
	"a large request": `{"model":"ns/m","messages":["` + strings.Repeat("x", 100<<10) + `"]}`,
}

func TestReusedConnectionThatDied(t *testing.T) {
	for name, body := range sizes {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(n int, w *wire) {
				w.send(status(200, "", whole))
				if n == 0 {
					<-w.gone // the next request has begun to arrive: it gets no answer
				}
			})
			b := says(t, status(200, "", whole))
			r := newRig(t, newRoute(a, b))
			for range 2 {
				got := r.post(body, "Idempotency-Key", "x")
				if got.status != 200 || got.header.Get("X-Spillway-Backend") != "a" || got.header.Get("X-Spillway-Attempts") != "1" {
					t.Fatalf("answer %+v", got)
				}
			}
			if a.count() != 2 || learnedBy(r.breakers, "a") != clean {
				t.Errorf("a was asked %d times, breaker %+v", a.count(), learnedBy(r.breakers, "a"))
			}
		})
	}
}

func TestFreshConnectionThatDiedIsNotReplayed(t *testing.T) {
	for name, body := range sizes {
		t.Run(name, func(t *testing.T) {
			a, b := says(t), says(t, status(200, "", whole))
			r := newRig(t, newRoute(a, b))
			if got := r.post(body, "Idempotency-Key", "x"); got.header.Get("X-Spillway-Backend") != "b" || a.count() != 1 {
				t.Errorf("a was asked %d times, answer %+v", a.count(), got)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	setup := func(t *testing.T, backends int) (r *rig, free func()) {
		hold := make(chan struct{})
		a := newUpstream(t, func(n int, w *wire) {
			if n == 0 {
				w.until(hold)
			}
			w.send(sseHead, c("a"), fin, done)
		})
		route := newRoute(append([]*upstream{a}, says(t, sseHead, c("b"), fin, done))[:backends]...)
		route.Chain[0].MaxInFlight = 1
		route.Queue = table.Queue{Length: 1, MaxWait: 30 * time.Millisecond}
		r = newRig(t, route)
		first := make(chan answer)
		go func() { first <- r.post(streamed) }()
		waitFor(t, func() bool { return a.count() == 1 })
		return r, func() {
			close(hold)
			if got := <-first; events(got.body) != c("a")+fin+done {
				t.Errorf("the first one got %q", got.body)
			}
		}
	}
	queued := beat(stream.Heartbeat{State: stream.StateQueued, Backend: "a", Position: 1})
	t.Run("waits its turn and is told its place", func(t *testing.T) {
		r, free := setup(t, 1)
		second := make(chan answer)
		go func() { second <- r.post(streamed) }()
		waitFor(t, func() bool { return r.counted(`llm_queue_depth{backend="a",logical_model="ns/m"} 1`) })
		third := r.post(streamed)
		if got := toldBy(t, third); got.Status != 429 || got.Code != "rate_limit_error" || got.RetryAfter == "" {
			t.Errorf("with a full queue: %+v", got)
		}
		if !r.counted("llm_queue_rejected_total 1") || !r.counted("llm_queue_wait_seconds_count 0") {
			t.Error("who is turned away is not counted, or as one who waited")
		}
		free()
		if diff := cmp.Diff(queued+attemptA1+startedA1+c("a")+fin+done, (<-second).body); diff != "" {
			t.Errorf("the second (-want +got):\n%s", diff)
		}
	})
	t.Run("spills after the longest wait", func(t *testing.T) {
		r, free := setup(t, 2)
		got := r.post(streamed)
		want := queued + attemptB2 + beat(stream.Heartbeat{State: stream.StateUpstreamStarted, N: 2, Backend: "b", Reason: "spilled"}) + c("b") + fin + done
		if diff := cmp.Diff(want, got.body); diff != "" {
			t.Errorf("the second (-want +got):\n%s", diff)
		}
		if learnedBy(r.breakers, "a") != clean {
			t.Error("waiting was held against the backend")
		}
		free()
	})
	t.Run("is left by a caller that leaves", func(t *testing.T) {
		r, free := setup(t, 1)
		ctx, leave := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.URL+chatPath, strings.NewReader(streamed))
		if err != nil {
			t.Fatal(err)
		}
		var left sync.WaitGroup
		left.Go(func() {
			if resp, err := r.client.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
		waitFor(t, func() bool { return r.counted(`llm_queue_depth{backend="a",logical_model="ns/m"} 1`) })
		leave()
		left.Wait()
		waitFor(t, func() bool { return r.counted(`llm_queue_depth{backend="a",logical_model="ns/m"} 0`) })
		free()
	})
}

// Two busy backends with a queue each: whoever finds no room behind keeps its place, and only whoever finds none at all is
// turned away.
func TestPlaceInAQueueIsNotGivenUpForNone(t *testing.T) {
	holdA, holdB := make(chan struct{}), make(chan struct{})
	held := func(hold chan struct{}) func(int, *wire) {
		return func(n int, w *wire) {
			if n == 0 {
				w.until(hold)
			}
			w.send(status(200, "", whole))
		}
	}
	a, b := newUpstream(t, held(holdA)), newUpstream(t, held(holdB))
	route := newRoute(a, b)
	route.Chain[0].MaxInFlight, route.Chain[1].MaxInFlight = 1, 1
	route.Queue = table.Queue{Length: 1, MaxWait: 20 * time.Millisecond}
	r := newRig(t, route)
	servedBy := func() chan string {
		by := make(chan string, 1)
		go func() {
			got := r.post(unary)
			by <- strconv.Itoa(got.status) + " " + got.header.Get("X-Spillway-Backend")
		}()
		return by
	}
	waiting := func(backend string) func() bool {
		return func() bool { return r.counted(`llm_queue_depth{backend="` + backend + `",logical_model="ns/m"} 1`) }
	}
	first := servedBy()
	waitFor(t, func() bool { return a.count() == 1 })
	second := servedBy() // spills, and is b's
	waitFor(t, func() bool { return b.count() == 1 })
	third := servedBy() // spills into b's queue
	waitFor(t, waiting("b"))
	fourth := servedBy() // stays in a's
	waitFor(t, waiting("a"))
	<-time.After(5 * route.Queue.MaxWait)
	if got := <-servedBy(); got != "429 " {
		t.Errorf("with both queues full: %q", got)
	}
	close(holdA)
	for _, got := range []string{<-first, <-fourth} {
		if got != "200 a" {
			t.Errorf("served by %q, want a", got)
		}
	}
	close(holdB)
	for _, got := range []string{<-second, <-third} {
		if got != "200 b" {
			t.Errorf("served by %q, want b", got)
		}
	}
}

func TestRateLimit(t *testing.T) {
	u := newUpstream(t, func(_ int, w *wire) { w.send(status(200, "", whole)) })
	route := newRoute(u)
	route.RateLimit = table.RateLimit{Requests: 1, Per: time.Hour, Burst: 1}
	r := newRig(t, route)
	if got := r.post(unary); got.status != 200 || got.header.Get("X-Ratelimit-Limit-Requests") != "1" || got.header.Get("X-Ratelimit-Remaining-Requests") != "0" ||
		got.header.Get("X-Ratelimit-Reset-Requests") == "" {
		t.Errorf("answer %+v", got)
	}
	if got := toldBy(t, r.post(`{"model":"ns/unknown"}`)); got.Status != 404 {
		t.Errorf("an unknown model: %+v", got)
	}
	got := r.post(unary)
	if diff := cmp.Diff(told{429, "rate_limited", "3600", ""}, toldBy(t, got)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.body, "spec.rateLimit") || u.count() != 1 {
		t.Errorf("body %s, backend asked %d times", got.body, u.count())
	}
	if !r.counted(`llm_rate_limited_total{logical_model="ns/m"} 1`) {
		t.Error("the shed request is not counted")
	}
}

func TestHintIsFollowedAndAnswered(t *testing.T) {
	for hint, want := range map[string]string{" b ": "applied", "x": "not-in-chain"} {
		r := newRig(t, newRoute(says(t, status(200, "", whole)), says(t, status(200, "", whole))))
		got := r.post(unary, "X-Prefer-Backend", hint)
		if got.header.Get("X-Spillway-Preference") != want || (got.header.Get("X-Spillway-Backend") == "b") != (want == "applied") {
			t.Errorf("hint %q: header %v", hint, got.header)
		}
	}
}

func TestPinsEndWithTheirTime(t *testing.T) {
	for left, want := range map[time.Duration]string{time.Hour: "b", -time.Second: "a"} {
		route := newRoute(says(t, status(200, "", whole)), says(t, status(200, "", whole)))
		route.Pins = []table.Pin{{Name: "p", Backend: "b", Mode: table.PinOnly, ExpiresAt: time.Now().Add(left)}}
		if got := newRig(t, route).post(unary); got.header.Get("X-Spillway-Backend") != want {
			t.Errorf("%s left: header %v", left, got.header)
		}
	}
}

type authorizer func() *openai.Error

func (f authorizer) Authorize(context.Context, http.Header, *table.Route) (string, *openai.Error) {
	return "", f()
}

func (f authorizer) Usable(_ context.Context, _ http.Header, routes []*table.Route) ([]*table.Route, string, *openai.Error) {
	return routes, "", f()
}

func TestAuthorizerHasItsSay(t *testing.T) {
	u := says(t)
	r := newRig(t, newRoute(u), func(c *proxy.Config) {
		c.Authorize = authorizer(func() *openai.Error { return &openai.Error{Code: openai.CodeForbidden, Message: "no"} })
	})
	if diff := cmp.Diff(told{403, "forbidden", "", "false"}, toldBy(t, r.post(unary))); diff != "" || u.count() != 0 {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestPanicIsAnsweredAndLeavesNothingBehind(t *testing.T) {
	r := newRig(t, newRoute(says(t)), func(c *proxy.Config) {
		c.Authorize = authorizer(func() *openai.Error { panic("secret prompt") })
	})
	if diff := cmp.Diff(told{500, "internal_error", "", ""}, toldBy(t, r.post(unary))); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if log := r.log.String(); !strings.Contains(log, "panic in a request") || strings.Contains(log, "secret prompt") {
		t.Errorf("log %s", log)
	}
	if !r.counted("llm_in_flight_requests 0") {
		t.Error("a request is still counted as being served")
	}
}

func TestShutdownEndsAStreamWithAnError(t *testing.T) {
	a := newUpstream(t, func(_ int, w *wire) { w.send(sseHead, c("a")); w.silence() })
	r := newRig(t, newRoute(a))
	base, shutdown := context.WithCancelCause(t.Context())
	s := httptest.NewUnstartedServer(r.proxy.Handler())
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	defer s.Close()
	resp, err := r.client.Post(s.URL+chatPath, "application/json", strings.NewReader(streamed))
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(resp.Body)
	readUntil(t, in, "data:")
	shutdown(errors.New("going down"))
	resp.Body = rest{in, resp.Body}
	if got := finish(resp); got.err != nil || !strings.Contains(got.body, errorEvent("overloaded")) || strings.Contains(got.body, "DONE") {
		t.Errorf("rest %q, error %v", got.body, got.err)
	}
}

func TestShutdownSendsThoseWhoWaitElsewhere(t *testing.T) {
	base, shutdown := context.WithCancelCause(t.Context())
	a := newUpstream(t, func(_ int, w *wire) { shutdown(errors.New("going down")); w.silence() })
	r := newRig(t, newRoute(a))
	s := httptest.NewUnstartedServer(r.proxy.Handler())
	s.Config.BaseContext = func(net.Listener) context.Context { return base }
	s.Start()
	defer s.Close()
	resp, err := r.client.Post(s.URL+chatPath, "application/json", strings.NewReader(unary))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(told{503, "overloaded", "1", ""}, toldBy(t, finish(resp))); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestCallerThatLeavesWhileItSendsIsToldApart(t *testing.T) {
	r := newRig(t, newRoute(says(t)))
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(r.log.String(), "chat_completions") })
	if log := r.log.String(); !strings.Contains(log, "499") {
		t.Errorf("log %s", log)
	}
}

// One writer: beats, events and leaving callers at once, over both versions of HTTP. The race detector judges.
func TestBeatsEventsAndLeavingCallersAtOnce(t *testing.T) {
	a := newUpstream(t, func(_ int, w *wire) {
		w.send(sseHead)
		for range 300 {
			w.send(c("x"))
		}
		w.send(fin, done)
	})
	route := newRoute(a)
	route.Heartbeat = table.Heartbeat{Interval: time.Millisecond, Form: table.HeartbeatLine}
	r := newRig(t, route)
	s2, client2 := secondServer(t, r)
	var callers sync.WaitGroup
	for i := range 20 {
		callers.Go(func() {
			server, client := r.server, r.client
			if i%2 == 0 {
				server, client = s2, client2
			}
			resp, err := client.Post(server.URL+chatPath, "application/json", strings.NewReader(streamed))
			if err != nil {
				t.Error(err)
				return
			}
			if i%4 < 2 {
				_, _ = io.CopyN(io.Discard, resp.Body, int64(1000*i))
				_ = resp.Body.Close()
				return
			}
			if got := finish(resp); events(got.body) != strings.Repeat(c("x"), 300)+fin+done {
				t.Errorf("a torn stream of %d bytes, error %v", len(got.body), got.err)
			}
		})
	}
	callers.Wait()
}

func TestBackendOverTLSAndHTTP2(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			t.Errorf("spoken: %s", req.Proto)
		}
		if coding := req.Header.Values("Accept-Encoding"); coding != nil {
			t.Errorf("asked for %q", coding)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, c("a")+fin+done)
	}))
	backend.EnableHTTP2 = true
	backend.Config.ErrorLog = log.New(io.Discard, "", 0) // it is refused on purpose
	backend.StartTLS()
	defer backend.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: backend.Certificate().Raw}))
	route := newRoute(says(t))
	route.Chain[0].BaseURL = backend.URL
	route.Chain[0].TLS = &table.TLS{CA: ca}
	if got := newRig(t, route).post(streamed); events(got.body) != c("a")+fin+done {
		t.Errorf("status %d, body %q", got.status, got.body)
	}
	unverified := newRoute(says(t))
	unverified.Chain[0].BaseURL = backend.URL
	r := newRig(t, unverified)
	if got := toldBy(t, r.post(streamed)); got.Code != "upstream_error" || !strings.Contains(r.log.String(), "an authority that is not trusted") {
		t.Errorf("with an unknown authority: %+v, log %s", got, r.log.String())
	}
}

func TestProbe(t *testing.T) {
	cases := map[string]struct {
		endpoint string
		answers  []string
		want     breaker.Kind
		bodies   []string
	}{
		"a first token is enough": {endpoint: chatPath, answers: []string{sseHead + role + c("x")}, want: breaker.Success,
			bodies: []string{`{"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"physical-a","stream":true}`}},
		"the newer name of the limit": {endpoint: chatPath, answers: []string{status(400, "", `{"error":{"message":"use max_completion_tokens"}}`), sseHead + c("x")}, want: breaker.Success,
			bodies: []string{`{"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"physical-a","stream":true}`,
				`{"max_completion_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"physical-a","stream":true}`}},
		"an event that lacks its blank line":  {endpoint: chatPath, answers: []string{sseHead + role + strings.TrimSuffix(c("x"), "\n\n")}, want: breaker.Success},
		"a stream that is cut before a token": {endpoint: chatPath, answers: []string{sseHead + role + c("x")[:20]}, want: breaker.Failed},
		"completions": {endpoint: "/v1/completions", answers: []string{sseHead + `data: {"choices":[{"index":0,"text":"x"}]}` + "\n\n"}, want: breaker.Success,
			bodies: []string{`{"max_tokens":1,"model":"physical-a","prompt":"ping","stream":true}`}},
		"responses": {endpoint: "/v1/responses", answers: []string{sseHead + `data: {"type":"response.output_text.delta","delta":"x"}` + "\n\n"}, want: breaker.Success,
			bodies: []string{`{"input":"ping","max_output_tokens":16,"model":"physical-a","stream":true}`}},
		"messages": {endpoint: messagesPath, answers: []string{sseHead + messageText}, want: breaker.Success,
			bodies: []string{`{"max_tokens":1,"messages":[{"content":"ping","role":"user"}],"model":"physical-a","stream":true}`}},
		"an error event first":            {endpoint: chatPath, answers: []string{sseHead + `data: {"error":{"message":"x","code":429}}` + "\n\n"}, want: breaker.Refused},
		"DONE alone":                      {endpoint: chatPath, answers: []string{sseHead + done}, want: breaker.Failed},
		"an unknown content coding":       {endpoint: chatPath, answers: []string{status(200, "Content-Encoding: br\r\n", whole)}, want: breaker.Failed},
		"a body that is cut":              {endpoint: chatPath, answers: []string{"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + whole}, want: breaker.Failed},
		"closed without an answer":        {endpoint: chatPath, answers: []string{""}, want: breaker.Failed},
		"a redirect":                      {endpoint: chatPath, answers: []string{status(300, "", "")}, want: breaker.Misconfigured},
		"an answer with a status between": {endpoint: chatPath, answers: []string{status(299, "", whole)}, want: breaker.Success},
		"the endpoint is gone":            {endpoint: chatPath, answers: []string{status(404, "", `{}`)}, want: breaker.EndpointMissing},
		"rejected for another reason":     {endpoint: chatPath, answers: []string{status(422, "", `{}`)}, want: breaker.Settled},
		"still broken":                    {endpoint: chatPath, answers: []string{status(500, "", `{}`)}, want: breaker.Failed},
		"rejected in another dialect":     {endpoint: "/v1/completions", answers: []string{status(400, "", `{}`)}, want: breaker.Settled},
		"rejected twice is settled":       {endpoint: chatPath, answers: []string{status(400, "", `{}`), status(400, "", `{}`)}, want: breaker.Settled},
		"still full":                      {endpoint: chatPath, answers: []string{status(429, "", `{}`)}, want: breaker.Refused},
		"200 with HTML is no life":        {endpoint: chatPath, answers: []string{status(200, "", `<html>`)}, want: breaker.Failed},
		"JSON will do, too":               {endpoint: chatPath, answers: []string{status(200, "", whole)}, want: breaker.Success},
		"embeddings": {endpoint: "/v1/embeddings", answers: []string{status(200, "", `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m"}`)}, want: breaker.Success,
			bodies: []string{`{"input":"ping","model":"physical-a"}`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(n int, w *wire) {
				w.send(tc.answers[n])
				if strings.HasPrefix(tc.answers[n], sseHead) && strings.HasSuffix(tc.answers[n], "\n\n") {
					w.silence() // the probe leaves with the first token
				}
			})
			r := newRig(t, newRoute(a))
			r.route.Chain[0].Credential = &table.Credential{Header: "X-Own-Key", Value: "KA"}
			got := r.proxy.Probe(t.Context(), breaker.ProbeRequest{ID: "a", Backend: &r.route.Chain[0], Endpoint: tc.endpoint, Bound: time.Minute})
			if got.Kind != tc.want || a.count() != len(tc.answers) {
				t.Errorf("result %+v after %d requests, want kind %v after %d", got, a.count(), tc.want, len(tc.answers))
			}
			for _, seen := range a.requests() {
				if dated := seen.header.Get("Anthropic-Version") != ""; seen.header.Get("X-Own-Key") != "KA" || dated != (tc.endpoint == messagesPath) {
					t.Errorf("header %v", seen.header)
				}
			}
			for i, want := range tc.bodies {
				if seen := a.requests()[i]; seen.body != want || seen.target != tc.endpoint {
					t.Errorf("request %d: %s %s, want %s", i, seen.target, seen.body, want)
				}
			}
		})
	}
	t.Run("what cannot be asked is misconfigured", func(t *testing.T) {
		r := newRig(t, newRoute(says(t), says(t)))
		r.route.Chain[0].BaseURL, r.route.Chain[1].TLS = "http://127.0.0.1:port", &table.TLS{CA: "none"}
		for i := range r.route.Chain {
			if got := r.proxy.Probe(t.Context(), breaker.ProbeRequest{Backend: &r.route.Chain[i], Endpoint: chatPath}); got.Kind != breaker.Misconfigured {
				t.Errorf("%s: %+v", r.route.Chain[i].Name, got)
			}
		}
	})
	t.Run("the end of its context says nothing", func(t *testing.T) {
		a := newUpstream(t, func(_ int, w *wire) { w.silence() })
		r := newRig(t, newRoute(a))
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			waitFor(t, func() bool { return a.count() == 1 })
			stop()
		}()
		if got := r.proxy.Probe(ctx, breaker.ProbeRequest{ID: "a", Backend: &r.route.Chain[0], Endpoint: chatPath}); got.Kind != breaker.Neutral {
			t.Errorf("result %+v", got)
		}
	})
}

// Recovery end to end: the proxy itself finds out that the backend is well, and no caller's turn is spent.
func TestRecoveryBySyntheticProbe(t *testing.T) {
	a := newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.send(status(500, "", `{}`))
			return
		}
		w.send(sseHead, c("a"), fin, done)
	})
	b := newUpstream(t, func(_ int, w *wire) { w.send(sseHead, c("b"), fin, done) })
	route := newRoute(a, b)
	route.Chain[0].Failure = table.Failure{Threshold: 1, Cooldown: 50 * time.Millisecond}
	r := newRig(t, route)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.breakers.Run(ctx, r.proxy) })
	defer running.Wait()
	defer stop()
	r.post(streamed)
	waitFor(t, func() bool { return r.breakers.View("a", chatPath).State == breaker.Closed })
	if got := r.post(streamed); events(got.body) != c("a")+fin+done {
		t.Errorf("stream %q", got.body)
	}
	if body := a.requests()[1].body; !strings.Contains(body, `"max_tokens":1`) {
		t.Errorf("the request after the failure was a caller's: %s", body)
	}
	if !r.counted(`llm_breaker_transitions_total{backend="a",namespace="ns",reason="Failing",to="Open"} 1`) {
		t.Error("the opening was not counted")
	}
}

// Callers more impatient than slowAfter must not hide a silent backend: when one leaves, the proxy asks itself.
