package proxy

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

// comments are the comments of a stream, one in each line.
func comments(stream string) string {
	var out []string
	for line := range strings.SplitSeq(stream, "\n") {
		if text, is := strings.CutPrefix(line, ": "); is {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}

// What a waiting caller is told, and when: on a fake clock to the millisecond.
func TestWhatAWaitingCallerIsTold(t *testing.T) {
	const (
		attemptA = `{"state":"attempt","n":1,"of":2,"backend":"a","regime":"contended"}`
		givenUp  = `{"state":"backend_saturated","backend":"a","failing_over":true,"code":"backend_saturated"}`
		attemptB = `{"state":"attempt","n":2,"of":2,"backend":"b"}`
		startedB = `{"state":"upstream_started","n":2,"backend":"b","reason":"saturated"}`
	)
	again := func(state, elapsed string) string {
		return strings.TrimSuffix(state, "}") + `,"elapsed_ms":` + elapsed + "}"
	}
	cases := map[string]struct {
		stream    bool
		heartbeat table.Heartbeat
		want      string
		wantEarly bool // the status line was out before the answer
	}{
		"the state is repeated after each interval without output": {true, table.Heartbeat{Interval: 10 * time.Second, CommitAfter: time.Second},
			attemptA + "\n" + again(attemptA, "11000") + "\n" + again(attemptA, "21000") + "\n" + givenUp + "\n" + attemptB + "\n" + startedB, true},
		"an interval begins anew with each output": {true, table.Heartbeat{Interval: 25 * time.Second, CommitAfter: time.Second},
			attemptA + "\n" + again(attemptA, "26000") + "\n" + givenUp + "\n" + attemptB + "\n" + startedB, true},
		"without an interval there are no keepalives, and the states stay": {true, table.Heartbeat{CommitAfter: time.Second},
			attemptA + "\n" + givenUp + "\n" + attemptB + "\n" + startedB, true},
		"before the commit they are collected, and not repeated": {true, table.Heartbeat{Interval: 10 * time.Second, CommitAfter: time.Hour},
			attemptA + "\n" + givenUp + "\n" + attemptB + "\n" + startedB, false},
		"an answer that is no stream has no place for them": {false, table.Heartbeat{Interval: time.Second, CommitAfter: time.Second}, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := oneToken + "data: [DONE]\n\n"
				if !tc.stream {
					answer = goodAnswer
				}
				b := newBubble(t, []string{silence, answer}, func(r *table.Route) {
					r.Heartbeat = tc.heartbeat
					r.Heartbeat.Form = table.HeartbeatLine
					r.Chain[0].Regime = "contended"
					r.Chain[0].Saturation.SlowAfter, r.Chain[0].Saturation.NonStreamingSlowAfter = 30*time.Second, 30*time.Second
				})
				w, after := b.ask(t.Context(), tc.stream)
				if diff := cmp.Diff(tc.want, comments(w.Body.String())); diff != "" {
					t.Errorf("comments (-want +got):\n%s", diff)
				}
				if after != 30*time.Second || !strings.Contains(w.Body.String(), "hi") {
					t.Errorf("after %s: %q", after, w.Body)
				}
				if early := w.Header().Get("X-Spillway-Backend") == ""; early != tc.wantEarly {
					t.Errorf("the headers say %v", w.Header())
				}
			})
		})
	}
}

// Output of the backend is output: a keepalive comes an interval after the last of it.
func TestKeepalivesWaitForAnIntervalWithoutOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token, attempt = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n", `{"state":"attempt","n":1,"of":1,"backend":"a"}` + "\n"
		wait := func(d string) string { return pauseMark + d + pauseMark + token }
		b := newBubble(t, []string{oneToken + wait("6s") + wait("6s") + wait("11s") + "data: [DONE]\n\n"}, func(r *table.Route) {
			r.Heartbeat = table.Heartbeat{Interval: 10 * time.Second, CommitAfter: time.Second, Form: table.HeartbeatLine}
		})
		w, _ := b.ask(t.Context(), true)
		started := `{"state":"upstream_started","n":1,"backend":"a","reason":"first"`
		want := attempt + started + "}\n" + started + `,"elapsed_ms":22000}`
		if diff := cmp.Diff(want, comments(w.Body.String())); diff != "" {
			t.Errorf("comments (-want +got):\n%s", diff)
		}
	})
}

// G5: before the commit an error has its status; after it, it is an event, whichever backend it comes from.
func TestErrorsKnowWhetherTheStatusLineIsOut(t *testing.T) {
	later := func(d, answer string) string { return pauseMark + d + pauseMark + answer }
	busy := "HTTP/1.1 429 x\r\nContent-Length: 2\r\n\r\n{}"
	broken := "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}"
	cases := map[string]struct {
		says       []string
		wantStatus int
		want       string // the error, or the token
	}{
		"one that fails at half a second": {[]string{later("500ms", busy)}, 429, "backend_saturated: a refused"},
		"two that fail at two and at three seconds": {
			[]string{later("2s", busy), later("1s", broken)}, 200, "upstream_error: a refused b failed"},
		"the first in time, the last not": {
			[]string{later("500ms", busy), later("1s", broken)}, 200, "upstream_error: a refused b failed"},
		"one that fails at two seconds, and one that is well": {
			[]string{later("2s", busy), oneToken + "data: [DONE]\n\n"}, 200, `{"choices":[{"delta":{"content":"hi"}}]}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, func(r *table.Route) {
					r.Heartbeat.CommitAfter = time.Second
				})
				w, _ := b.ask(t.Context(), true)
				body := w.Body.String()
				if w.Code != tc.wantStatus {
					t.Errorf("status %d, want %d", w.Code, tc.wantStatus)
				}
				if strings.HasPrefix(tc.want, "{") {
					if !strings.Contains(body, tc.want) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
						t.Errorf("stream %q", body)
					}
					return
				}
				if got := attemptsOf(t, body); got != tc.want || strings.Contains(body, "[DONE]") {
					t.Errorf("%q, want %q: %s", got, tc.want, body)
				}
				if is := strings.HasPrefix(body, ":"); is != (tc.wantStatus == 200) {
					t.Errorf("body %q", body)
				}
			})
		})
	}
}

// Those who queue for a backend go on at once when its breaker opens, and are told their place until then.
func TestThoseWhoQueueLeaveAnOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{silence, oneToken + "data: [DONE]\n\n"}, func(r *table.Route) {
			r.Chain[0].MaxInFlight = 1
			r.Chain[0].Saturation.SlowAfter = 10 * time.Second // the slot is held for longer than the breaker stays closed
			r.Queue = table.Queue{Length: 8, MaxWait: time.Hour}
		})
		var callers sync.WaitGroup
		ask := func(leaveAfter time.Duration, wantAfter time.Duration, want string) {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), leaveAfter)
				defer cancel()
				w, after := b.ask(ctx, true)
				if diff := cmp.Diff(want, comments(w.Body.String())); diff != "" || after != wantAfter {
					t.Errorf("after %s, want %s; comments (-want +got):\n%s", after, wantAfter, diff)
				}
			})
			synctest.Wait()
		}
		const (
			attempt = `{"state":"attempt","n":2,"of":2,"backend":"b"}` + "\n"
			spilled = `{"state":"upstream_started","n":2,"backend":"b","reason":"breaker-open"}`
		)
		place := func(n string) string { return `{"state":"queued","backend":"a","position":` + n + "}\n" }
		ask(time.Hour, 10*time.Second, `{"state":"attempt","n":1,"of":2,"backend":"a"}`+"\n"+
			`{"state":"backend_saturated","backend":"a","failing_over":true,"code":"backend_saturated"}`+"\n"+attempt+
			`{"state":"upstream_started","n":2,"backend":"b","reason":"saturated"}`)
		ask(time.Second, time.Second, "") // it leaves before anything was written
		ask(time.Hour, 3*time.Second, place("2")+place("1")+attempt+spilled)
		ask(time.Hour, 3*time.Second, place("3")+place("2")+attempt+spilled)
		<-time.After(3 * time.Second)
		p, _ := b.breakers.Admit("a", "/v1/chat/completions", breaker.Normal)
		p.Done(breaker.Result{Kind: breaker.Misconfigured})
		callers.Wait()
	})
}

// How long a caller waits for a slot, and for whose sake it leaves.
func TestHowAWaitForASlotEnds(t *testing.T) {
	later := pauseMark + "5s" + pauseMark + oneToken + "data: [DONE]\n\n"
	openBreaker := func(b *bubble, id table.BackendID) {
		p, _ := b.breakers.Admit(id, "/v1/chat/completions", breaker.Normal)
		p.Done(breaker.Result{Kind: breaker.Refused, RetryAfter: time.Hour})
	}
	cases := map[string]struct {
		says       []string
		before     func(b *bubble) // when nobody has the slot,
		meanwhile  func(b *bubble) // when the first caller has it, and
		within     func(b *bubble) // when the second one waits
		header     []string
		wantAfter  time.Duration
		want       string // the last comment
		wantStatus int
	}{
		"with the request's time": {says: []string{silence}, header: []string{"X-Request-Timeout-Ms", "2000"}, wantAfter: 2 * time.Second, wantStatus: 504},
		"with a slot, for a last resort too": {says: []string{later}, meanwhile: func(b *bubble) { openBreaker(b, "a") },
			wantAfter: 10 * time.Second, want: `{"state":"upstream_started","n":1,"backend":"a","reason":"breaker-open"}`, wantStatus: 200},
		"at once, behind another last resort": {says: []string{silence}, before: func(b *bubble) { openBreaker(b, "a") }, wantStatus: 503},
		"not for a backend that has opened": {says: []string{later, oneToken}, within: func(b *bubble) { openBreaker(b, "b") },
			wantAfter: 10 * time.Second, want: `{"state":"upstream_started","n":1,"backend":"a","reason":"first"}`, wantStatus: 200},
		"for one that is well": {says: []string{later, oneToken + "data: [DONE]\n\n"},
			wantAfter: time.Second, want: `{"state":"upstream_started","n":2,"backend":"b","reason":"spilled"}`, wantStatus: 200},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, func(r *table.Route) {
					r.Chain[0].MaxInFlight = 1
					r.Queue = table.Queue{Length: 8, MaxWait: time.Second}
				})
				if tc.before != nil {
					tc.before(b)
				}
				ctx, leave := context.WithCancel(t.Context())
				var first sync.WaitGroup
				first.Go(func() { _, _ = b.ask(ctx, true) })
				synctest.Wait()
				if tc.meanwhile != nil {
					tc.meanwhile(b)
				}
				if tc.within != nil {
					time.AfterFunc(time.Millisecond, func() { tc.within(b) })
				}
				w, after := b.ask(t.Context(), true, tc.header...)
				said := strings.Split(comments(w.Body.String()), "\n")
				if got := said[len(said)-1]; after != tc.wantAfter || got != tc.want || w.Code != tc.wantStatus {
					t.Errorf("%d after %s, want %s; told %q: %s", w.Code, after, tc.wantAfter, said, w.Body)
				}
				leave()
				first.Wait()
			})
		})
	}
}

// Behind a last resort everybody is told when the breaker may be asked again, also where nobody may queue.
func TestBehindALastResortNoQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{later("5s", goodAnswer)}, func(r *table.Route) { r.Chain[0].MaxInFlight = 1 })
		p, _ := b.breakers.Admit("a", "/v1/chat/completions", breaker.Normal)
		p.Done(breaker.Result{Kind: breaker.Refused, RetryAfter: time.Hour})
		var first sync.WaitGroup
		first.Go(func() { _, _ = b.ask(t.Context(), false) })
		synctest.Wait()
		if w, _ := b.ask(t.Context(), false); w.Code != 503 || w.Header().Get("Retry-After") != "3600" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
		first.Wait()
	})
}

// No wait is no wait: where another backend has room, maxWait: 0s spills at once.
func TestNobodyWaitsWhereTheLongestWaitIsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{pauseMark + "5s" + pauseMark + goodAnswer, goodAnswer}, func(r *table.Route) {
			r.Chain[0].MaxInFlight = 1
			r.Queue = table.Queue{Length: 8}
		})
		var first sync.WaitGroup
		first.Go(func() { _, _ = b.ask(t.Context(), false) })
		synctest.Wait()
		if w, after := b.ask(t.Context(), false); after != 0 || w.Header().Get("X-Spillway-Backend") != "b" {
			t.Errorf("after %s: %v", after, w.Header())
		}
		first.Wait()
	})
}

// A wait may use no more of the request's time than an attempt: the last resort is to be reached.
func TestWaitingLeavesTimeForTheNextBackend(t *testing.T) {
	cases := map[string]struct {
		says        []string
		maxWait     time.Duration
		wantAfter   time.Duration
		wantBackend string
	}{
		"a tenth is kept for the next one": {[]string{later("60s", goodAnswer), goodAnswer}, 30 * time.Second, 18 * time.Second, "b"},
		"and for each behind it":           {[]string{later("60s", goodAnswer), goodAnswer, goodAnswer}, 30 * time.Second, 16 * time.Second, "b"},
		"a shorter wait stays":             {[]string{later("60s", goodAnswer), goodAnswer}, 5 * time.Second, 5 * time.Second, "b"},
		"where nobody is behind, none is":  {[]string{later("19s", goodAnswer)}, 30 * time.Second, 20 * time.Second, "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, func(r *table.Route) {
					r.Chain[0].MaxInFlight = 1
					r.Queue = table.Queue{Length: 8, MaxWait: tc.maxWait}
				})
				var first sync.WaitGroup
				first.Go(func() { _, _ = b.ask(t.Context(), false) })
				synctest.Wait()
				if w, after := b.ask(t.Context(), false, headerTimeout, "20000"); after != tc.wantAfter || w.Header().Get("X-Spillway-Backend") != tc.wantBackend {
					t.Errorf("after %s: %v %s", after, w.Header(), w.Body)
				}
				first.Wait()
			})
		})
	}
}

// A place in a queue is not given up for a backend whose window has been proven too small.
func TestNobodySpillsToABackendThatIsTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{tooLong, later("5s", goodAnswer), goodAnswer}, func(r *table.Route) {
			r.Chain[0].ContextWindow, r.Chain[2].ContextWindow = 16_000, 16_000
			r.Chain[1].MaxInFlight = 1
			r.Queue = table.Queue{Length: 8, MaxWait: time.Second}
		})
		var first sync.WaitGroup
		first.Go(func() { _, _ = b.ask(t.Context(), false) })
		synctest.Wait()
		if w, after := b.ask(t.Context(), false); after != 10*time.Second || w.Header().Get("X-Spillway-Backend") != "b" {
			t.Errorf("after %s: %v %s", after, w.Header(), w.Body)
		}
		first.Wait()
	})
}

// A caller that queues is told that it still does, as one whose backend is silent is.
func TestKeepalivesOfThoseWhoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{pauseMark + "25s" + pauseMark + oneToken + "data: [DONE]\n\n"}, func(r *table.Route) {
			r.Chain[0].MaxInFlight = 1
			r.Queue = table.Queue{Length: 8}
			r.Heartbeat = table.Heartbeat{Interval: 10 * time.Second, CommitAfter: time.Second, Form: table.HeartbeatLine}
		})
		ctx, leave := context.WithCancel(t.Context())
		var first sync.WaitGroup
		first.Go(func() { _, _ = b.ask(t.Context(), true) })
		synctest.Wait()
		time.AfterFunc(24*time.Second, leave)
		w, after := b.ask(ctx, true)
		const queued = `{"state":"queued","backend":"a","position":1`
		want := queued + "}\n" + queued + `,"elapsed_ms":11000}` + "\n" + queued + `,"elapsed_ms":21000}`
		if diff := cmp.Diff(want, comments(w.Body.String())); diff != "" || after != 24*time.Second {
			t.Errorf("after %s; comments (-want +got):\n%s", after, diff)
		}
		first.Wait()
	})
}

// A caller that may wait for long, because its prompt is, keeps the place of the probe for as long.
func TestAPatientProbeKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{silence}, func(r *table.Route) {
			r.Chain[0].Probe = table.ProbeRequest
			r.Chain[0].Failure.Threshold, r.Chain[0].Failure.Cooldown = 1, time.Minute
			r.Chain[0].Saturation.SlowAfter, r.Chain[0].Saturation.SlowAfterPerKilotoken = time.Minute, 100*time.Hour
		})
		p, _ := b.breakers.Admit("a", "/v1/chat/completions", 0)
		p.Done(breakerFailed)
		<-time.After(2 * time.Minute)
		ctx, leave := context.WithTimeout(t.Context(), time.Hour)
		defer leave()
		var caller sync.WaitGroup
		caller.Go(func() { _, _ = b.ask(ctx, true) })
		<-time.After(50 * time.Minute)
		if v := b.breakers.View("a", "/v1/chat/completions"); v.State != breaker.HalfOpen || v.Usable {
			t.Errorf("another one would be let through while the first waits in its own time: %+v", v)
		}
		caller.Wait()
	})
}

// One probe at a time, and its place is given back in every way in which a caller's request can end.
func TestAProbesPlaceIsGivenBack(t *testing.T) {
	cases := map[string]struct {
		says  string
		leave time.Duration
	}{
		"the caller leaves":         {silence, time.Second},
		"its budget ends":           {silence, 0},
		"the backend breaks":        {pauseMark + "1s" + pauseMark + "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}", 0},
		"the answer is no answer":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 0},
		"the endpoint is not there": {"HTTP/1.1 404 x\r\nContent-Length: 2\r\n\r\n{}", 0},
		"the request is rejected":   {"HTTP/1.1 400 x\r\nContent-Length: 2\r\n\r\n{}", 0},
		"the answer breaks":         {oneToken, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, []string{tc.says}, func(r *table.Route) {
					r.Chain[0].Probe = table.ProbeRequest
					r.Chain[0].Failure.Threshold, r.Chain[0].Failure.Cooldown = 1, time.Minute
					r.WhenAllOpen = table.AllOpenReject
					r.Timeouts.Request = 20 * time.Second
				})
				p, _ := b.breakers.Admit("a", "/v1/chat/completions", 0)
				p.Done(breakerFailed)
				<-time.After(2 * time.Minute)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if tc.leave > 0 {
					time.AfterFunc(tc.leave, leave)
				}
				_, _ = b.ask(ctx, true)
				<-time.After(2 * time.Minute) // whatever it has opened is due again
				v := b.breakers.View("a", "/v1/chat/completions")
				if !v.Usable {
					t.Errorf("nobody is let through any more: %+v", v)
				}
			})
		})
	}
}

// Some servers put a finish reason into every chunk: the answer is not over while it goes on.
func TestAnswersGoOnBehindAFinishReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunk = `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
		const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
		b := newBubble(t, []string{head + strings.Repeat(chunk+pauseMark+"1m"+pauseMark, 5)}, func(r *table.Route) { r.Timeouts.Idle = 2 * time.Minute })
		w, took := b.ask(t.Context(), true)
		_, got, _ := strings.Cut(w.Body.String(), "}\n")
		_, got, _ = strings.Cut(got, "}\n") // two comments
		if diff := cmp.Diff(strings.Repeat(chunk, 5)+"data: [DONE]\n\n", got); diff != "" || took != 6*time.Minute {
			t.Errorf("after %s (-want +got):\n%s", took, diff)
		}
	})
}

// The time that a body takes to come costs no error its status.
func TestSlowBodiesDoNotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rejected = "HTTP/1.1 400 x\r\nContent-Length: 2\r\n\r\n{}"
		b := newBubble(t, []string{pauseMark + "500ms" + pauseMark + rejected}, func(r *table.Route) { r.Heartbeat.CommitAfter = time.Second })
		body := io.MultiReader(late(3*time.Second), strings.NewReader(`{"model":"ns/m","stream":true}`))
		if w, _ := b.send(t.Context(), body); w.Code != 400 {
			t.Errorf("status %d, want the backend's own: %s", w.Code, w.Body)
		}
	})
}
