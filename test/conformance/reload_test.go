package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// beating commits at once, so that every state is on the wire when it happens.
var beating = settings{"heartbeat": "{interval: 1s, commitAfter: 0s}"}

func (s settings) and(name, value string) settings {
	out := settings{name: value}
	for k, v := range s {
		out[k] = v
	}
	return out
}

// A route that is deleted, or has its chain replaced, under requests in every phase: they end on what they began with.
func TestRoutesChangeUnderRequests(t *testing.T) {
	changes := map[string]func(r *route, other *upstream){
		"deleted":  func(r *route, _ *upstream) { _ = os.Remove(r.file) },
		"replaced": func(r *route, other *upstream) { r.write(beating, other.plain()) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			a := newUpstream(t, func(n int, w *wire) {
				if n == 0 { // a stream, within its answer
					w.send(sseHead, role, c("one"))
					w.await(goOn)
					w.send(c("two"), fin, done)
					return
				}
				w.send(sseHead, role, c("queued"), fin, done)
			})
			b := newUpstream(t, func(_ int, w *wire) {
				w.await(goOn)
				w.send(status(500, "", `{}`))
			})
			later := well(t, "later")
			r := newRoute(t, beating, a.with("maxInFlight: 1"), later.plain())
			attempted := newRoute(t, beating, b.plain(), later.plain())

			running := dial(t).send(request(chat, r.streamed()))
			running.until(c("one"))
			queued := dial(t).send(request(chat, r.streamed()))
			queued.until(`"position":1}` + "\n")
			waiting := dial(t).send(request(chat, attempted.streamed()))
			waiting.until(`"state":"attempt"`)

			change(r, later)
			change(attempted, later)
			reloaded(t)
			close(goOn)
			if got := running.until(done); !strings.Contains(got, c("two")) {
				t.Errorf("the running stream: %q", got)
			}
			if got := queued.until(done); !strings.Contains(got, c("queued")) {
				t.Errorf("the queued one: %q", got)
			}
			if got := waiting.until(done); !strings.Contains(got, c("later")) {
				t.Errorf("the one being tried: %q", got)
			}
		})
	}
}

// D5: what an edit does to an open breaker and an empty bucket.
func TestStateOverEdits(t *testing.T) {
	cases := map[string]struct {
		edit func(r *route, set settings, a, b *upstream)
		want string
	}{
		"an unrelated field": {func(r *route, set settings, a, b *upstream) {
			r.write(set.and("queue", "{length: 7}"), a.plain(), b.plain())
		}, "200 b breaker-open"},
		"a backend's timeout": {func(r *route, set settings, a, b *upstream) {
			r.write(set.and("timeouts", "{connect: 6s}"), a.plain(), b.plain())
		}, "200 b breaker-open"},
		"a new header": {func(r *route, set settings, a, b *upstream) {
			r.write(set, a.with("headers: [{name: X-A, value: '1'}]"), b.plain())
		}, "200 b breaker-open"},
		"another model at the backend": {func(r *route, set settings, a, b *upstream) {
			r.write(set, a.with("regime: hosted"), b.plain())
			text, _ := os.ReadFile(r.file)
			r.put(strings.Replace(string(text), r.physical("a"), "another", 1))
		}, "200 a first"},
		"an edit that does not compile": {func(r *route, _ settings, _, _ *upstream) {
			r.put("apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nspec: [")
		}, "200 b breaker-open"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newUpstream(t, func(n int, w *wire) {
				if n == 0 {
					w.send(status(401, "", `{}`))
					return
				}
				w.send(status(200, "", whole))
			})
			b, set := well(t, "b"), settings{"failure": "{threshold: 1, cooldown: 10m}", "rateLimit": "{requests: 1, per: 1h, burst: 3}"}
			r := routed(t, set, a, b)
			r.ask()
			tc.edit(r, set, a, b)
			reloaded(t)
			if got := r.servedBy(); got != tc.want {
				t.Errorf("served by %q, want %q", got, tc.want)
			}
			r.ask()
			if got := r.ask(); got.status != 429 || got.said(t).Code != "rate_limited" {
				t.Errorf("the bucket was filled: %d", got.status)
			}
		})
	}
}

// reloaded returns when what was written before is served, as a route is that is written now.
func reloaded(t *testing.T) { routed(t, nil, well(t, "x")) }

// pin is the manifest of a pin on a route.
func (r *route) pin(mode, backend string, from time.Time, d time.Duration) string {
	return fmt.Sprintf("---\napiVersion: spillway.dev/v1alpha1\nkind: BackendPin\nmetadata: {name: %s, namespace: lab}\n"+
		"spec: {routes: {names: [%s]}, backend: %s, mode: %s, startsAt: %q, expiresAt: %q}\n",
		r.name, r.name, backend, mode, from.UTC().Format(time.RFC3339), from.Add(d).UTC().Format(time.RFC3339))
}

func TestPins(t *testing.T) {
	past := time.Now().Add(-time.Minute)
	cases := map[string]struct {
		mode, backend, header string
		down                  bool // the first of the plan fails
		want                  string
	}{
		"Prefer":                            {mode: "Prefer", backend: "b", want: "200 b pinned"},
		"Avoid":                             {mode: "Avoid", backend: "a", want: "200 b pinned"},
		"Only":                              {mode: "Only", backend: "b", want: "200 b pinned"},
		"a pin has the word after the hint": {mode: "Prefer", backend: "b", header: "X-Prefer-Backend: a", want: "200 b pinned"},
		"Prefer never makes a call fail":    {mode: "Prefer", backend: "b", down: true, want: "200 a failed"},
		"Only does":                         {mode: "Only", backend: "b", down: true, want: "502 b pinned"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := well(t, "b")
			if tc.down {
				b = says(t, status(500, "", `{}`))
			}
			r := routed(t, nil, well(t, "a"), b)
			r.writeWith(r.pin(tc.mode, tc.backend, past, time.Hour), nil, well(t, "a").plain(), b.plain())
			served := func() string {
				var lines []string
				if tc.header != "" {
					lines = append(lines, tc.header)
				}
				got := r.ask(lines...)
				if tc.header != "" && got.header.Get("X-Spillway-Preference") == "applied" {
					return "before the pin"
				}
				return fmt.Sprint(got.status, " ", got.header.Get("X-Spillway-Backend"), " ", got.header.Get("X-Spillway-Reason"))
			}
			waitFor(t, tc.want, func() bool { return served() == tc.want })
		})
	}
}

// A pin rests the backend behind its choice: no probe of ours, from the pin's start, and one that runs is ended.
func TestPinEndsAProbeThatRuns(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 8)
	a := newUpstream(t, func(_ int, w *wire) {
		if !isProbe(w.got.body) {
			w.send(status(500, "", `{}`))
			return
		}
		w.send(sseHead, role)
		w.silence()
		left <- struct{}{}
	})
	b, set := well(t, "b"), settings{"failure": "{threshold: 1, cooldown: 100ms}"}
	r := routed(t, set, a, b)
	r.ask()
	waitFor(t, "a probe", func() bool { return len(a.probes()) > 0 })
	r.writeWith(r.pin("Prefer", "b", time.Now().Add(-time.Minute), time.Hour), set, a.plain(), b.plain())
	<-left
	probes := len(a.probes())
	<-time.After(10 * grace)
	if more := len(a.probes()); more != probes {
		t.Errorf("%d probes of a backend that rests", more-probes)
	}
}

// The states of a waiting caller, in their order, while everything happens to one request: a queue, silence, a refusal, an
// error event, then an answer that breaks.
func TestHeartbeatsTellTheWholeStory(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	a := newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.send(sseHead, c("x"))
			w.await(free)
			return
		}
		w.send(sseHead, role, ": a comment of a\n\n")
		w.silence()
	})
	b := says(t, status(429, "Retry-After: 9\r\n", `{}`))
	d := says(t, sseHead, role, "event: error\ndata: {\"error\":{\"message\":\"x\",\"code\":502}}\n\n")
	e := says(t, sseHead, role, ": OPENROUTER PROCESSING\n\n", "retry: 5\nid: 1\n\n", c("token"), "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"10.0.0.1\"}}\n\n", c("late"))
	last := well(t, "never")
	set := beating.and("saturation", "{slowAfter: 1500ms, coldStartGrace: 0s}").and("queue", "{maxWait: 30s}")
	r := newRoute(t, set, a.with("maxInFlight: 1, regime: contended"), b.plain(), d.plain(), e.plain(), last.plain())
	first := dial(t).send(request(chat, r.streamed()))
	first.until(c("x"))
	cl := dial(t).send(request(chat, r.streamed()))
	cl.until(`"position":1}` + "\n")
	close(free)
	rest := cl.until(`"broken"}]}}` + "\n\n")
	want := []string{"attempt a", "backend_saturated a", "attempt b", "backend_saturated b", "attempt c", "backend_failed c",
		"attempt d", "upstream_started d"}
	if diff := cmp.Diff(want, states(t, rest)); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"a comment of a", "OPENROUTER", "10.0.0.1", "late", "[DONE]", "retry:", "never"} {
		if strings.Contains(rest, bad) {
			t.Errorf("%q crossed: %q", bad, rest)
		}
	}
	if strings.Count(rest, `"role"`) != 1 || last.count() != 0 {
		t.Errorf("%d preludes, the last backend was asked %d times", strings.Count(rest, `"role"`), last.count())
	}
	if !strings.Contains(rest, `"elapsed_ms"`) {
		t.Error("no keepalive while the first backend was silent")
	}
}

// failing_over is said where a backend follows, and only there.
func TestFailingOverIsTheTruth(t *testing.T) {
	t.Parallel()
	long := status(400, "", `{"error":{"message":"x","code":"context_length_exceeded"}}`)
	a, b := says(t, long), well(t, "b")
	r := newRoute(t, beating, a.with("contextWindow: 8000"), b.with("contextWindow: 4000"))
	got := r.stream()
	if b.count() != 0 || !strings.Contains(got.body, `"failing_over":false`) || got.said(t).Code != "context_length_exceeded" {
		t.Errorf("%d %q", b.count(), got.body)
	}
}
