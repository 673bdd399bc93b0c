package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

const (
	okStream = oneToken + "data: [DONE]\n\n"
	err500   = "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}"
	tooLong  = "HTTP/1.1 400 x\r\nContent-Length: 44\r\n\r\n" + `{"error":{"code":"context_length_exceeded"}}`
	started2 = `{"state":"upstream_started","n":2,"backend":"b"`
)

func later(d, answer string) string { return pauseMark + d + pauseMark + answer }

// An attempt that was given up is told with its own code, and with whether another one follows.
func TestWhatACallerIsToldOfAnAttemptThatWasGivenUp(t *testing.T) {
	none := func(*table.Route) {}
	head, _, _ := strings.Cut(oneToken, "data:")
	cases := map[string]struct {
		says   []string
		change func(*table.Route)
		want   string // the second comment
	}{
		"no first token": {[]string{silence, okStream}, func(r *table.Route) { r.Chain[0].Saturation.SlowAfter = time.Second },
			`{"state":"backend_saturated","backend":"a","failing_over":true,"code":"backend_saturated"}`},
		"a refusal": {[]string{"HTTP/1.1 429 x\r\nContent-Length: 2\r\n\r\n{}", okStream}, none,
			`{"state":"backend_saturated","backend":"a","failing_over":true,"code":"backend_saturated"}`},
		"no HTTP": {[]string{"SSH-2.0-OpenSSH\r\n\r\n", okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_transport_failed"}`},
		"a 500": {[]string{err500, okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_5xx"}`},
		"a 408": {[]string{"HTTP/1.1 408 x\r\nContent-Length: 2\r\n\r\n{}", okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_error"}`},
		"a 500 whose body does not come": {[]string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{", okStream},
			func(r *table.Route) { r.Chain[0].Saturation.SlowAfter = time.Second },
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_5xx"}`},
		"no answer": {[]string{"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n{}", okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"response_validation_failed"}`},
		"more than can be held before the token": {[]string{head + strings.Repeat("data: {\"x\":\""+strings.Repeat("x", 1<<20)+"\"}\n\n", 17), okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"response_validation_failed"}`},
		"a 401": {[]string{"HTTP/1.1 401 x\r\nContent-Length: 2\r\n\r\n{}", okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_misconfigured"}`},
		"a window that is too small": {[]string{tooLong, okStream}, none,
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_request_rejected"}`},
		"its share of the time": {[]string{silence, okStream}, func(r *table.Route) { r.Timeouts.Request = 10 * time.Second },
			`{"state":"backend_failed","backend":"a","failing_over":true,"code":"request_deadline_exceeded"}`},
		"the last one": {[]string{later("2s", err500)}, func(r *table.Route) { r.Heartbeat.CommitAfter = time.Second },
			`{"state":"backend_failed","backend":"a","failing_over":false,"code":"upstream_5xx"}`},
		"the last one whose window is large enough": {[]string{later("2s", tooLong), okStream}, func(r *table.Route) {
			r.Heartbeat.CommitAfter = time.Second
			r.Chain[0].ContextWindow, r.Chain[1].ContextWindow = 16_000, 16_000
		}, `{"state":"backend_failed","backend":"a","failing_over":false,"code":"upstream_request_rejected"}`},
		"one with a window that is larger": {[]string{tooLong, okStream}, func(r *table.Route) {
			r.Chain[0].ContextWindow, r.Chain[1].ContextWindow = 12_000, 16_000
		}, `{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_request_rejected"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, tc.change)
				w, _ := b.ask(t.Context(), true)
				said := strings.Split(comments(w.Body.String()), "\n")
				if len(said) < 2 || said[1] != tc.want {
					t.Errorf("told %q, want %q: %s", said, tc.want, w.Body)
				}
				if follows := strings.Contains(tc.want, `"failing_over":true`); strings.Contains(w.Body.String(), started2) != follows {
					t.Errorf("the second one: %s", w.Body)
				}
			})
		})
	}
}

// Two silences open a backend's breaker: from then on callers go to the next one at once.
func TestSaturatedBackendIsPassedOverFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 30 * time.Second
		b := newBubble(t, []string{silence, okStream}, func(r *table.Route) { r.Chain[0].Saturation.SlowAfter = slow })
		for i, want := range []struct {
			after  time.Duration
			reason string
		}{{slow, "saturated"}, {slow, "saturated"}, {0, "breaker-open"}, {0, "breaker-open"}} {
			w, after := b.ask(t.Context(), true)
			if reason := w.Header().Get("X-Spillway-Reason"); after != want.after || reason != want.reason || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
				t.Errorf("request %d after %s, reason %q: %s", i, after, reason, w.Body)
			}
		}
		if diff := cmp.Diff([]string{"a", "b", "a", "b", "b", "b"}, b.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		if v := b.breakers.View("a", "/v1/chat/completions"); v.State != breaker.Open || v.Reason != breaker.ReasonSaturated {
			t.Errorf("breaker %+v", v)
		}
	})
}

func TestLongPromptsMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("100s", okStream), okStream}, func(r *table.Route) {
			r.Chain[0].Saturation.SlowAfter, r.Chain[0].Saturation.SlowAfterPerKilotoken = 20*time.Second, time.Minute
		})
		for length, want := range map[int]string{6000: "a", 4000: "b"} {
			body := strings.NewReader(`{"model":"ns/m","stream":true,"x":"` + strings.Repeat("x", length) + `"}`)
			if w, after := b.send(t.Context(), body); w.Header().Get("X-Spillway-Backend") != want {
				t.Errorf("a prompt of %d bytes, after %s: %v %s", length, after, w.Header(), w.Body)
			}
		}
	})
}

// From the first token on nobody else is asked, so that the request's body needs no room.
func TestBodyIsGivenUpWithTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("2s", oneToken) + later("2s", "data: [DONE]\n\n")}, func(*table.Route) {})
		used := make(chan bool, 2)
		for _, after := range []time.Duration{time.Second, 3 * time.Second} {
			time.AfterFunc(after, func() { used <- b.proxy.memory.used.Load() > 0 })
		}
		_, _ = b.ask(t.Context(), true)
		if diff := cmp.Diff([]bool{true, false}, []bool{<-used, <-used}); diff != "" {
			t.Errorf("used before and behind the token (-want +got):\n%s", diff)
		}
	})
}

// Where detection is off, no length of the prompt turns it on.
func TestBackendWithoutSlowAfterMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{silence, okStream}, func(r *table.Route) { r.Chain[0].Saturation.SlowAfterPerKilotoken = time.Second })
		ctx, leave := context.WithTimeout(t.Context(), time.Hour)
		defer leave()
		if w, after := b.ask(ctx, true); after != time.Hour || b.breakers.Records() != nil {
			t.Errorf("after %s, breakers %+v: %s", after, b.breakers.Records(), w.Body)
		}
	})
}

// A retry is a further try at the same entry of the chain: it is not announced again, and its pause is a wait like any other.
func TestThePauseBeforeARetry(t *testing.T) {
	const attempt = `{"state":"attempt","n":1,"of":2,"backend":"a"`
	paused := func(r *table.Route) {
		r.Retry = table.Retry{Attempts: 1, Backoff: 25 * time.Second}
		r.Heartbeat = table.Heartbeat{CommitAfter: time.Second, Interval: 10 * time.Second, Form: table.HeartbeatLine}
	}
	t.Run("keeps the caller informed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{err500, okStream}, paused)
			w, after := b.ask(t.Context(), true)
			want := attempt + "}\n" + attempt + `,"elapsed_ms":11000}` + "\n" + attempt + `,"elapsed_ms":21000}` + "\n" +
				`{"state":"backend_failed","backend":"a","failing_over":true,"code":"upstream_5xx"}` + "\n" +
				`{"state":"attempt","n":2,"of":2,"backend":"b"}` + "\n" + started2 + `,"reason":"failed"}`
			if diff := cmp.Diff(want, comments(w.Body.String())); diff != "" || after != 25*time.Second {
				t.Errorf("after %s; comments (-want +got):\n%s", after, diff)
			}
			if diff := cmp.Diff([]string{"a", "a", "b"}, b.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("ends with its caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{err500, okStream}, paused)
			ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
			defer leave()
			if _, after := b.ask(ctx, true); after != 5*time.Second {
				t.Errorf("after %s", after)
			}
			if diff := cmp.Diff([]string{"a"}, b.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("ends with its caller at the last backend, too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{err500}, paused)
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, leave)
			var log strings.Builder
			b.proxy.cfg.AccessLog = telemetry.NewAccessLog(&log)
			if w, _ := b.ask(ctx, false); w.Body.Len() > 0 || !strings.Contains(log.String(), `"code":499`) {
				t.Errorf("told %q, logged %s", w.Body, log.String())
			}
		})
	})
}

// serveWith takes one request through the pipeline, with meanwhile between its plan and its first attempt.
func (b *bubble) serveWith(t *testing.T, meanwhile func()) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m"}`))
	between := func(*exchange) *failure {
		meanwhile()
		return nil
	}
	handle(func() { b.proxy.serve(w, r, 1, []stage{read, identify, resolve, makePlan, between, dispatch}) })
	return w
}

// The breaker is asked again when it is a backend's turn, however short a time ago the plan was made.
func TestBackendThatOpensBehindThePlanIsNotAsked(t *testing.T) {
	openA := func(b *bubble) func() {
		return func() {
			p, _ := b.breakers.Admit("a", "/v1/chat/completions", breaker.Normal)
			p.Done(breaker.Result{Kind: breaker.Refused, RetryAfter: 40 * time.Second})
		}
	}
	t.Run("the next one is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{goodAnswer, goodAnswer}, func(*table.Route) {})
			w := b.serveWith(t, openA(b))
			if got := w.Header().Get("X-Spillway-Backend") + " " + w.Header().Get("X-Spillway-Reason"); got != "b breaker-open" {
				t.Errorf("served by %q: %s", got, w.Body)
			}
		})
	})
	t.Run("without another, the caller is told when it may be", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{goodAnswer}, func(*table.Route) {})
			w := b.serveWith(t, openA(b))
			if w.Code != 503 || w.Header().Get("Retry-After") != "40" || !strings.Contains(w.Body.String(), `"backend_saturated"`) || b.asked != nil {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
		})
	})
	t.Run("nor is one whose queue is full", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, []string{goodAnswer, later("5s", goodAnswer), goodAnswer}, func(r *table.Route) {
				r.Chain = []table.Backend{r.Chain[1], r.Chain[0]} // the full one first
				r.Chain[0].MaxInFlight = 1
			})
			var first sync.WaitGroup
			first.Go(func() { _, _ = b.ask(t.Context(), false) })
			synctest.Wait()
			w := b.serveWith(t, openA(b))
			if w.Code != 429 || !strings.Contains(w.Body.String(), `"rate_limit_error"`) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			first.Wait()
		})
	})
}

// deaf is a caller's connection that takes so many writes and no more.
type deaf struct {
	*httptest.ResponseRecorder
	takes     int
	fault     any    // what a write panics with that is not taken; nil: it fails
	meanwhile func() // what happens before it does
}

func (d *deaf) Write(p []byte) (int, error) {
	if d.takes--; d.takes >= 0 {
		return d.ResponseRecorder.Write(p)
	}
	if d.meanwhile != nil {
		d.meanwhile()
	}
	if fault := d.fault; fault != nil {
		d.fault = nil
		panic(fault)
	}
	return 0, errors.New("broken pipe")
}

// For a caller that cannot be told anything any more no further backend is asked.
func TestCallerThatCannotBeWrittenToHasNoOtherBackendAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("2s", err500), okStream}, func(r *table.Route) { r.Heartbeat.CommitAfter = time.Second })
		w := &deaf{ResponseRecorder: httptest.NewRecorder(), takes: 1}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m","stream":true}`))
		handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
		if diff := cmp.Diff([]string{"a"}, b.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

// Nor is a backend waited for or read on behalf of a caller that takes nothing.
func TestCallerThatTakesNothingIsLeftWithTheFirstWrite(t *testing.T) {
	cases := map[string]struct {
		says string
		want time.Duration
	}{
		"with a token":       {oneToken + later("10s", "data: [DONE]\n\n"), 0},
		"with a comment":     {silence, time.Second},
		"waiting for a slot": {later("1h", okStream), time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, []string{tc.says}, func(r *table.Route) {
					r.Heartbeat.CommitAfter = time.Second
					r.Queue.Length = 1
					if name == "waiting for a slot" {
						r.Chain[0].MaxInFlight = 1
					}
				})
				p, _ := b.breakers.Admit("a", "/v1/chat/completions", breaker.Normal)
				p.Done(breakerFailed) // which only a good answer clears
				ctx, leave := context.WithCancel(t.Context())
				var first sync.WaitGroup
				if name == "waiting for a slot" {
					first.Go(func() { _, _ = b.ask(ctx, true) })
					synctest.Wait()
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m","stream":true}`))
				began := time.Now()
				handle(func() { b.proxy.Handler().ServeHTTP(&deaf{ResponseRecorder: httptest.NewRecorder()}, r) })
				if records := b.breakers.Records(); time.Since(began) != tc.want || records[0].Failures != 1 || records[0].Saturations != 0 {
					t.Errorf("after %s, breakers %+v", time.Since(began), records)
				}
				leave()
				first.Wait()
			})
		})
	}
}

// A slot that comes when its caller cannot be written to any more goes on to the next one.
func TestSlotThatComesTooLateIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("1h", okStream)}, func(r *table.Route) {
			r.Heartbeat.CommitAfter = time.Second
			r.Queue.Length, r.Chain[0].MaxInFlight = 1, 1
		})
		ctx, leave := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = b.ask(ctx, true) })
		synctest.Wait()
		w := &deaf{ResponseRecorder: httptest.NewRecorder(), meanwhile: func() {
			leave()
			first.Wait()
			synctest.Wait()
		}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m","stream":true}`))
		handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
		if backend := &b.proxy.cfg.Store.Load().Routes()[0].Chain[0]; !b.proxy.cfg.Admission.Room(backend, 0) {
			t.Error("nobody has the slot, and nobody gets it")
		}
	})
}

// slow is a caller's connection whose first write takes longer than any backend may be silent.
type slow struct{ *httptest.ResponseRecorder }

func (s *slow) Write(p []byte) (int, error) {
	if s.Body.Len() == 0 {
		<-time.After(20 * time.Second)
	}
	return s.ResponseRecorder.Write(p)
}

// The time in which a caller is written to is no silence of the backend.
func TestSlowCallerIsNoSilentBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, token, _ := strings.Cut(oneToken, "\r\n\r\n")
		b := newBubble(t, []string{oneToken + later("5s", token) + "data: [DONE]\n\n"}, func(r *table.Route) { r.Timeouts.Idle = 10 * time.Second })
		w := &slow{httptest.NewRecorder()}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m","stream":true}`))
		handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
		if !strings.HasSuffix(w.Body.String(), token+token+"data: [DONE]\n\n") {
			t.Errorf("stream %s", w.Body)
		}
	})
}

// What became of a request is in one line of the log, with times to the microsecond.
func TestAccessLine(t *testing.T) {
	cases := map[string]struct {
		second string // what b says
		takes  int
		want   string // from code on
	}{
		"an answer":                   {goodAnswer, 1, `"code":200,"attempts":2,"duration_us":5000000,"bytes_in":16,"bytes_out":60,"backend":"b","reason":"failed","cause":"the backend failed (status 500)","ttft_us":5000000}`},
		"no answer":                   {err500, 1, `"code":502,"attempts":2,"duration_us":5000000,"bytes_in":16,"bytes_out":208,"backend":"b","reason":"failed","error":"upstream_error","cause":"the backend failed (status 500)"}`},
		"an answer that nobody takes": {goodAnswer, 0, `"code":499,"attempts":2,"duration_us":5000000,"bytes_in":16,"bytes_out":60,"backend":"b","reason":"failed","error":"client_closed_request","cause":"the backend failed (status 500)","ttft_us":5000000}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, []string{later("2s", err500), later("3s", tc.second)}, func(*table.Route) {})
				var log strings.Builder
				b.proxy.cfg.AccessLog = telemetry.NewAccessLog(&log)
				w := &deaf{ResponseRecorder: httptest.NewRecorder(), takes: tc.takes}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m"}`))
				handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
				if _, got, _ := strings.Cut(log.String(), `"stream":false,`); got != tc.want+"\n" {
					t.Errorf("line %s", log.String())
				}
			})
		})
	}
}

// A fault of this proxy within an attempt is nobody's evidence, and gives the backend's slot and its probe's place back.
func TestPanicWithinAnAttemptIsNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("2s", okStream)}, func(r *table.Route) {
			r.Heartbeat.CommitAfter = time.Second
			r.Chain[0].MaxInFlight = 1
			r.Chain[0].Probe = table.ProbeRequest
			r.Chain[0].Failure.Threshold = 1
		})
		p, _ := b.breakers.Admit("a", "/v1/chat/completions", breaker.Normal)
		p.Done(breakerFailed)
		<-time.After(2 * time.Minute)
		w := &deaf{ResponseRecorder: httptest.NewRecorder(), fault: "a fault of ours"}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"ns/m","stream":true}`))
		handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
		if v := b.breakers.View("a", "/v1/chat/completions"); !v.Usable || v.State != breaker.Open {
			t.Errorf("breaker %+v, want it to be as it was", v)
		}
		if w, _ := b.ask(t.Context(), true); !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
			t.Errorf("the next request: %d %s", w.Code, w.Body)
		}
	})
}

// What a request waits for is not this proxy's time: its body, a slot, the backend, the pause before a retry.
func TestTimeThatIsNotOursIsNoOverhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("5s", err500), later("1s", goodAnswer)}, func(r *table.Route) {
			r.Chain[0].MaxInFlight = 1
			r.Queue = table.Queue{Length: 8, MaxWait: time.Hour}
			r.Retry = table.Retry{Attempts: 1, Backoff: 3 * time.Second}
		})
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				body := io.MultiReader(late(2*time.Second), strings.NewReader(`{"model":"ns/m"}`))
				if w, _ := b.send(t.Context(), body); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		callers.Wait()
		families, err := b.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][2]float64{} // how many, and seconds in all
		for _, family := range families {
			if h := family.Metric[0].Histogram; h != nil && len(family.Metric) == 1 {
				got[family.GetName()] = [2]float64{float64(h.GetSampleCount()), h.GetSampleSum()}
			}
		}
		if got["llm_proxy_overhead_seconds"] != [2]float64{2, 0} || got["llm_queue_wait_seconds"] != [2]float64{1, 13} {
			t.Errorf("measured %v", got)
		}
	})
}
