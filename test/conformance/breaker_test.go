package conformance

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// isProbe tells a synthetic request from a caller's.
func isProbe(body string) bool { return strings.Contains(body, `"ping"`) }

func (u *upstream) probes() []received {
	var out []received
	for _, r := range u.requests() {
		if isProbe(r.body) {
			out = append(out, r)
		}
	}
	return out
}

func (u *upstream) calls() int { return u.count() - len(u.probes()) }

// servedBy asks once and says who answered and why.
func (r *route) servedBy() string {
	got := r.ask()
	return fmt.Sprint(got.status, " ", got.header.Get("X-Spillway-Backend"), " ", got.header.Get("X-Spillway-Reason"))
}

// What one answer, or so many, does to the next caller.
func TestWhoServesTheNextCaller(t *testing.T) {
	cases := map[string]struct {
		answer string
		calls  int
		want   string
	}{
		"429 opens at once":                        {status(429, "", `{}`), 1, "200 b breaker-open"},
		"529 opens at once":                        {status(529, "", `{}`), 1, "200 b breaker-open"},
		"503 with Retry-After opens at once":       {status(503, "Retry-After: 60\r\n", `{}`), 1, "200 b breaker-open"},
		"a 503 that says busy opens at once":       {status(503, "", `{"error":"server busy, please try again. maximum pending requests exceeded"}`), 1, "200 b breaker-open"},
		"401 opens at once":                        {status(401, "", `{}`), 1, "200 b breaker-open"},
		"402 opens at once":                        {status(402, "", `{}`), 1, "200 b breaker-open"},
		"a redirect opens at once":                 {status(308, "Location: /x\r\n", ``), 1, "200 b breaker-open"},
		"404 passes over the pair":                 {status(404, "", `{}`), 1, "200 b breaker-open"},
		"500 counts, once is not enough":           {status(500, "", `{}`), 1, "200 b failed"},
		"500 three times":                          {status(500, "", `{}`), 3, "200 b breaker-open"},
		"403 counts":                               {status(403, "", `{}`), 3, "200 b breaker-open"},
		"600 counts":                               {status(600, "", `{}`), 3, "200 b breaker-open"},
		"520 counts":                               {status(520, "", `{}`), 3, "200 b breaker-open"},
		"a plain 503 counts, and is no refusal":    {status(503, "Retry-After: soon\r\n", `{}`), 1, "200 b failed"},
		"a body that is no answer counts":          {status(200, "", `{"choices":[]}`), 3, "200 b breaker-open"},
		"400 is the caller's":                      {status(400, "", `{}`), 3, "400 a first"},
		"400 about a model is the caller's":        {status(400, "", `{"error":{"message":"model not available"}}`), 3, "400 a first"},
		"413 is the caller's":                      {status(413, "", `{}`), 3, "413 a first"},
		"the context's length counts nowhere":      {status(400, "", `{"error":{"code":"context_length_exceeded"}}`), 4, "200 b spilled"},
		"an error inside a 200 is what it says":    {status(200, "", `{"error":{"code":"rate_limit_exceeded"}}`), 1, "200 b breaker-open"},
		"a quota that is spent":                    {status(429, "", `{"error":{"code":"insufficient_quota"}}`), 1, "200 b breaker-open"},
		"an answer of another proxy of this kind":  {status(503, "", `{"error":{"code":"backend_saturated","retry_after_ms":60000}}`), 1, "200 b breaker-open"},
		"408 counts":                               {status(408, "", `{}`), 3, "200 b breaker-open"},
		"a Retry-After in the past is no cooldown": {status(429, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", `{}`), 1, "200 b breaker-open"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := says(t, tc.answer)
			r := routed(t, settings{"failure": "{threshold: 3, cooldown: 10m}"}, a, well(t, "b"))
			for range tc.calls {
				r.ask()
			}
			if got := r.servedBy(); got != tc.want {
				t.Errorf("served by %q, want %q", got, tc.want)
			}
		})
	}
}

// A pair of backend and endpoint is passed over; the backend's other endpoints are not.
func TestMissingEndpointDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	const vectors = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m"}`
	a := newUpstream(t, func(_ int, w *wire) {
		if strings.HasSuffix(w.got.target, "/embeddings") {
			w.send(status(404, "", `{"error":{"message":"no"}}`))
			return
		}
		w.send(status(200, "", whole))
	})
	b := says(t, status(200, "", vectors))
	r := routed(t, settings{"failure": "{threshold: 1, cooldown: 10m}"}, a, b)
	body := `{"model":"` + r.model + `","input":"x"}`
	for i := range 3 {
		if got := post(t, "/v1/embeddings", body); got.body != vectors || got.status != 200 {
			t.Fatalf("call %d: %d %q", i, got.status, got.body)
		}
	}
	if a.count() != 1 {
		t.Errorf("the missing endpoint was asked for %d times", a.count())
	}
	if got := r.servedBy(); got != "200 a first" {
		t.Errorf("chat is served by %q", got)
	}
}

// D1: at the end of a cooldown exactly one caller's request reaches a backend that hangs; the others go on at once.
func TestOneCallerIsTheProbe(t *testing.T) {
	t.Parallel()
	const callers = 30
	release := make(chan struct{})
	a := newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.send(status(401, "", `{}`))
			return
		}
		w.await(release)
		w.send(status(200, "", whole))
	})
	r := routed(t, settings{"failure": "{threshold: 1, cooldown: 300ms}", "recovery": "{probe: Request}"}, a, well(t, "b"))
	r.ask()
	waitFor(t, "the cooldown's end", func() bool {
		go r.ask()
		return a.count() == 2
	})
	var others sync.WaitGroup
	for range callers {
		others.Go(func() {
			if got := r.servedBy(); got != "200 b breaker-open" {
				t.Errorf("another caller was served by %q", got)
			}
		})
	}
	others.Wait()
	if a.count() != 2 {
		t.Errorf("%d requests reached the recovering backend, want the first and the probe", a.count())
	}
	close(release)
	waitFor(t, "the backend serves again", func() bool { return r.servedBy() == "200 a first" })
}

// What a recovery probe meets, and what follows from it.
func TestRecoveryProbes(t *testing.T) {
	const newName = `"max_completion_tokens":1`
	cases := map[string]struct {
		path, body string // of the failing call
		probed     func(w *wire)
		recovers   bool
		wantBody   string // of the probe
	}{
		"chat, answered":      {path: chat, probed: func(w *wire) { w.send(sseHead, role, c("x"), fin, done) }, recovers: true, wantBody: `"max_tokens":1`},
		"chat, one JSON body": {path: chat, probed: func(w *wire) { w.send(status(200, "", whole)) }, recovers: true, wantBody: `"stream":true`},
		"chat, a first token and silence": {path: chat, probed: func(w *wire) {
			w.send(sseHead, c("x"))
			w.silence()
		}, recovers: true},
		"chat, the limit under its new name only": {path: chat, probed: func(w *wire) {
			if strings.Contains(w.got.body, newName) {
				w.send(sseHead, c("x"), fin, done)
				return
			}
			w.send(status(400, "", `{"error":{"message":"Unsupported parameter: 'max_tokens'"}}`))
		}, recovers: true, wantBody: newName},
		"chat, rejected under both names: the next caller finds out": {path: chat, probed: func(w *wire) { w.send(status(400, "", `{}`)) }, recovers: true, wantBody: newName},
		"completions": {path: "/v1/completions", body: `,"prompt":"x"`, probed: func(w *wire) {
			w.send(sseHead, `data: {"choices":[{"index":0,"text":"x"}]}`+"\n\n")
		}, recovers: true, wantBody: `"prompt":"ping"`},
		"responses": {path: "/v1/responses", body: `,"input":"x"`, probed: func(w *wire) {
			w.send(sseHead, `data: {"type":"response.output_text.delta","delta":"x"}`+"\n\n")
		}, recovers: true, wantBody: `"max_output_tokens":16`},
		"messages": {path: "/v1/messages", body: `,"messages":[]`, probed: func(w *wire) {
			w.send(sseHead, `data: {"type":"content_block_delta","delta":{"text":"x"}}`+"\n\n")
		}, recovers: true, wantBody: `"max_tokens":1`},
		"embeddings": {path: "/v1/embeddings", body: `,"input":"x"`, probed: func(w *wire) {
			w.send(status(200, "", `{"data":[{"embedding":[1]}]}`))
		}, recovers: true, wantBody: `"input":"ping"`},
		"an error again":    {path: chat, probed: func(w *wire) { w.send(status(500, "", `{}`)) }},
		"200, but no token": {path: chat, probed: func(w *wire) { w.send(sseHead, role, done) }},
		"200, an error":     {path: chat, probed: func(w *wire) { w.send(status(200, "", `{"error":"no"}`)) }},
		"a reset":           {path: chat, probed: func(w *wire) { w.reset() }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newUpstream(t, func(_ int, w *wire) {
				if isProbe(w.got.body) {
					tc.probed(w)
					return
				}
				w.send(status(500, "", `{}`))
			})
			b := newUpstream(t, func(_ int, w *wire) { w.send(status(500, "", `{}`)) })
			r := routed(t, settings{"failure": "{threshold: 1, cooldown: 200ms}", "whenAllOpen": "Reject"}, a, b)
			post(t, tc.path, `{"model":"`+r.model+`"`+tc.body+`}`)
			before := 1
			waitFor(t, "a probe", func() bool { return len(a.probes()) > 0 })
			if tc.recovers {
				waitFor(t, "a caller reaches the backend again", func() bool {
					post(t, tc.path, `{"model":"`+r.model+`"`+tc.body+`}`)
					return a.calls() > before
				})
			} else {
				waitFor(t, "the probe after it", func() bool { return len(a.probes()) > 1 })
				if a.calls() > before {
					t.Error("a caller's turn was spent")
				}
			}
			probes := a.probes()
			seen := false
			for _, p := range probes {
				if p.target != tc.path {
					t.Errorf("the probe asks for %s", p.target)
				}
				seen = seen || strings.Contains(p.body, tc.wantBody)
			}
			if !seen {
				t.Errorf("probes %+v, want %s in one", probes, tc.wantBody)
			}
		})
	}
}

// A recovery is invisible to callers: while a probe hangs, all go to the next backend.
func TestHangingProbeHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, func(_ int, w *wire) {
		if !isProbe(w.got.body) {
			w.send(status(500, "", `{}`))
			return
		}
		w.send(sseHead, role)
		w.pause(patience)
	})
	r := routed(t, settings{"failure": "{threshold: 1, cooldown: 100ms}"}, a, well(t, "b"))
	r.ask()
	waitFor(t, "a probe", func() bool { return len(a.probes()) > 0 })
	for range 5 {
		if got := r.servedBy(); got != "200 b breaker-open" {
			t.Errorf("served by %q", got)
		}
	}
	if len(a.probes()) != 1 || a.calls() != 1 {
		t.Errorf("%d probes, %d calls", len(a.probes()), a.calls())
	}
}

// Saturation of one backend opens its group, failure does not; the one that caused it is probed, and closes all.
func TestCapacityGroupsShareSaturation(t *testing.T) {
	const group = "capacityGroup: gpu"
	t.Run("saturation", func(t *testing.T) {
		t.Parallel()
		well1 := make(chan struct{})
		a := newUpstream(t, func(_ int, w *wire) {
			select {
			case <-well1:
				w.send(sseHead, c("x"), fin, done) // to a probe and to callers of a stream
			default:
				w.send(status(429, "", `{}`))
			}
		})
		a2, b := well(t, "a2"), well(t, "b")
		r := newRoute(t, settings{"failure": "{threshold: 5, cooldown: 300ms}"}, a.with(group+suffix(t)), a2.with(group+suffix(t)), b.plain())
		r.ask()
		if got := r.servedBy(); got != "200 c breaker-open" {
			t.Errorf("served by %q: the neighbour was asked", got)
		}
		waitFor(t, "a probe", func() bool { return len(a.probes()) > 0 })
		close(well1)
		waitFor(t, "the group is open for callers again", func() bool {
			r.stream()
			return a.calls() > 1
		})
		if got := r.ask(); got.header.Get("X-Spillway-Backend") == "c" {
			t.Errorf("the neighbour is left alone all the same: %+v", got)
		}
		if len(a2.probes()) != 0 {
			t.Error("the neighbour, which caused nothing, was probed")
		}
	})
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		a, a2 := says(t, status(401, "", `{}`)), well(t, "a2")
		r := newRoute(t, settings{"failure": "{threshold: 1, cooldown: 10m}"}, a.with(group+suffix(t)), a2.with(group+suffix(t)))
		r.ask()
		if got := r.servedBy(); got != "200 b breaker-open" {
			t.Errorf("served by %q", got)
		}
	})
}

// suffix makes a group's name the test's own: groups span the namespace.
func suffix(t *testing.T) string {
	var sum uint32
	for _, b := range []byte(t.Name()) {
		sum = sum*31 + uint32(b)
	}
	return fmt.Sprintf("-%d", sum)
}

func TestEverythingOpen(t *testing.T) {
	busy := status(429, "Retry-After: 600\r\n", `{}`)
	t.Run("Reject answers at once with the time to the earliest", func(t *testing.T) {
		t.Parallel()
		a, b := says(t, busy), says(t, status(429, "Retry-After: 100\r\n", `{}`))
		r := routed(t, settings{"whenAllOpen": "Reject"}, a, b)
		first := r.ask().said(t)
		if diff := cmp.Diff(told{429, "backend_saturated", "100", "a refused, b refused"}, first); diff != "" {
			t.Errorf("first (-want +got):\n%s", diff)
		}
		if got := r.ask().said(t); got.Status != 503 || got.Code != "backend_saturated" || got.RetryAfter == "" || got.RetryAfter > "100" {
			t.Errorf("second %+v", got)
		}
		if a.count() != 1 || b.count() != 1 {
			t.Error("an open backend was asked")
		}
	})
	t.Run("the earliest may have come already", func(t *testing.T) {
		t.Parallel()
		a := newUpstream(t, func(_ int, w *wire) {
			if isProbe(w.got.body) {
				w.silence()
				return
			}
			w.send(status(401, "", `{}`))
		})
		r := routed(t, settings{"whenAllOpen": "Reject", "failure": "{threshold: 1, cooldown: 50ms}"}, a, says(t, busy))
		r.ask()
		waitFor(t, "a probe", func() bool { return len(a.probes()) > 0 })
		<-time.After(grace)
		if got := r.ask().said(t); got.Code != "backend_saturated" || got.RetryAfter != "1" {
			t.Errorf("%+v, want Retry-After 1: the probe of a is out", got)
		}
	})
	t.Run("Try lets one at a time through to the earliest", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		a, b := says(t, busy), newUpstream(t, func(n int, w *wire) {
			if n == 0 {
				w.send(status(429, "Retry-After: 100\r\n", `{}`))
				return
			}
			w.await(release)
			w.send(status(200, "", whole))
		})
		r := routed(t, nil, a, b)
		r.ask()
		through := make(chan string)
		go func() { through <- r.servedBy() }()
		waitFor(t, "one is let through", func() bool { return b.count() == 2 })
		if got := r.ask().said(t); got.Status != 503 || got.Code != "backend_saturated" || got.RetryAfter == "" {
			t.Errorf("another one %+v", got)
		}
		close(release)
		if got := <-through; got != "200 b breaker-open" {
			t.Errorf("let through: %q", got)
		}
		if got := r.servedBy(); got != "200 b breaker-open" || a.count() != 1 {
			t.Errorf("after its success: %q, a was asked %d times", got, a.count())
		}
	})
}

// One cold start: the caller moves on, one small request is left to load the model, and its token clears the count.
func TestColdModelIsNotBusy(t *testing.T) {
	t.Parallel()
	loaded := make(chan struct{})
	a := newUpstream(t, func(_ int, w *wire) {
		if isProbe(w.got.body) {
			w.await(loaded)
			w.send(sseHead, c("x"), fin, done)
			return
		}
		select {
		case <-loaded:
			w.send(sseHead, role, c("a"), fin, done)
		default:
			w.silence()
		}
	})
	r := newRoute(t, settings{"saturation": "{threshold: 2, cooldown: 10m, slowAfter: 1s, coldStartGrace: 30s}"}, a.plain(), well(t, "b").with("saturation: {slowAfter: 0s}"))
	if got := r.stream(); !strings.Contains(got.body, c("b")) {
		t.Errorf("the caller did not move on: %q", got.body)
	}
	waitFor(t, "one request is left to load the model", func() bool { return len(a.probes()) == 1 })
	close(loaded)
	waitFor(t, "the backend serves", func() bool { return strings.Contains(r.stream().body, c("a")) })
	if len(a.probes()) != 1 {
		t.Errorf("%d requests were left to load the model", len(a.probes()))
	}
}

// Impatient callers do not hide a silent backend, also where another route names it that has no slowAfter.
func TestLeavingCallersRaiseSuspicion(t *testing.T) {
	t.Parallel()
	a := newUpstream(t, func(_ int, w *wire) {
		if isProbe(w.got.body) {
			w.send(sseHead, c("x"), fin, done)
			return
		}
		w.silence()
	})
	r := routed(t, settings{"saturation": "{threshold: 2, cooldown: 10m, slowAfter: 60s, coldStartGrace: 0s}"}, a, well(t, "b"))
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer("name: "+r.name+",", "name: a-"+r.name+",", "slowAfter: 60s", "slowAfter: 0s").Replace(string(text))
	r.put(other + "---\n" + string(text))
	reloaded(t)
	early, late := dial(t).send(request(chat, r.streamed())), dial(t).send(request(chat, r.streamed()))
	waitFor(t, "both are being tried", func() bool { return a.calls() == 2 })
	early.leave()
	<-time.After(5*time.Second + grace)
	if len(a.probes()) != 0 {
		t.Error("suspected too early")
	}
	late.leave()
	waitFor(t, "one request finds out", func() bool { return len(a.probes()) == 1 })
}

// While somebody else's answer is in progress, silence is no proof: with maxInFlight the caller spills, and nothing is
// counted. It is the latest token that tells, not the first.
func TestAnswersOfOthersExcuseSilence(t *testing.T) {
	cases := map[string]struct {
		extra    string
		tokens   bool // the other answer goes on
		wantNext string
	}{
		"an answer goes on":            {"maxInFlight: 4", true, "200 a first"},
		"an answer stands still":       {"maxInFlight: 4", false, "200 b breaker-open"},
		"nobody knows how many it has": {"maxInFlight: 0", true, "200 b breaker-open"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end := make(chan struct{})
			a := newUpstream(t, func(n int, w *wire) {
				switch n {
				case 0:
					for w.send(sseHead, c("x")); !w.told(end, grace); {
						if tc.tokens {
							w.send(c("x"))
						}
					}
				case 1:
					w.silence()
				default:
					w.send(status(200, "", whole))
				}
			})
			r := newRoute(t, settings{"saturation": "{threshold: 1, cooldown: 10m, slowAfter: 1s, coldStartGrace: 0s}"},
				a.with(tc.extra), well(t, "b").plain())
			other := dial(t).send(request(chat, r.streamed()))
			other.until(c("x"))
			if got := r.stream(); !strings.Contains(got.body, c("b")) {
				t.Errorf("the caller did not spill: %q", got.body)
			}
			if got := r.servedBy(); got != tc.wantNext {
				t.Errorf("the next one is served by %q, want %q", got, tc.wantNext)
			}
			close(end)
		})
	}
}
