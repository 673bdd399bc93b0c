package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// asked is one synthetic request as the backend met it.
type asked struct {
	ID       table.BackendID
	Endpoint string
	Purpose  Purpose
	At       time.Duration // since the run began
	Bound    time.Duration
	CutAfter time.Duration // how long it went until its context ended; 0 when it was answered
}

// bench runs a registry inside of a synctest bubble, against a backend that answers as told.
type bench struct {
	r     *Registry
	start time.Time
	stop  func() // ends Run and waits for it

	mu     sync.Mutex
	answer func(ProbeRequest) Result // Neutral: silent until the context ends
	asked  []asked
}

func (b *bench) Probe(ctx context.Context, req ProbeRequest) Result {
	b.mu.Lock()
	a := asked{ID: req.ID, Endpoint: req.Endpoint, Purpose: req.Purpose, At: time.Since(b.start), Bound: req.Bound}
	res := b.answer(req)
	b.mu.Unlock()
	if res.Kind == Neutral {
		begun := time.Now()
		<-ctx.Done()
		a.CutAfter = time.Since(begun)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, a)
	return res
}

func (b *bench) answers(res Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = func(ProbeRequest) Result { return res }
}

func (b *bench) end(id table.BackendID, endpoint string, n int, res Result) {
	for range n {
		if p, ok := b.r.Admit(id, endpoint, Normal); ok {
			p.Done(res)
		}
	}
	synctest.Wait()
}

// pass lets time go by in the bubble, and everything settle at its end.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func routeOf(pins []table.Pin, backends ...table.Backend) *table.Table {
	return table.New([]*table.Route{{Namespace: "ns", Name: "r", Model: "ns/r", Chain: backends, Pins: pins}})
}

// inBubble runs do against a running registry and compares what the backends were asked.
func inBubble(t *testing.T, tbl func(start time.Time) *table.Table, do func(b *bench), want []asked) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{start: time.Now(), r: New(Options{Self: "pod", Jitter: noJitter})}
		b.answers(Result{Kind: Success})
		b.r.Apply(tbl(b.start))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.r.Run(ctx, b)
		}()
		b.stop = func() { cancel(); <-ended }
		do(b)
		b.stop()
		if diff := cmp.Diff(want, b.asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
	})
}

func plain(edits ...func(*table.Backend)) func(time.Time) *table.Table {
	return func(time.Time) *table.Table { return routeOf(nil, server("a", edits...), server("b")) }
}

// pinnedTo makes a table with one pin that is active between two instants after the start.
func pinnedTo(mode table.PinMode, backend string, from, to time.Duration) func(time.Time) *table.Table {
	return func(start time.Time) *table.Table {
		pin := table.Pin{Name: "p", Backend: backend, Mode: mode, StartsAt: start.Add(from), ExpiresAt: start.Add(to)}
		return routeOf([]table.Pin{pin}, server("a", graceful), server("b"))
	}
}

func TestRunProbes(t *testing.T) {
	recovery := func(at time.Duration) asked {
		return asked{ID: "a", Endpoint: chat, Purpose: Recovery, At: at, Bound: minProbeBound}
	}
	cases := map[string]struct {
		table func(time.Time) *table.Table
		do    func(b *bench)
		want  []asked
	}{
		"never in a healthy state": {
			plain(), func(b *bench) { b.end("a", chat, 1, Result{Kind: Silent}); pass(time.Hour) }, nil},
		"at the end of the cooldown, once, and then no more": {
			plain(), func(b *bench) { b.end("a", chat, 2, Result{Kind: Silent}); pass(time.Hour) },
			[]asked{recovery(satCooldown)}},
		"again after each whole cooldown until it closes": {
			plain(), func(b *bench) {
				b.answers(Result{Kind: Failed})
				b.end("a", chat, 5, Result{Kind: Failed})
				pass(2 * failCooldown)
				b.answers(Result{Kind: Success})
				pass(time.Hour)
			}, []asked{recovery(failCooldown), recovery(2 * failCooldown), recovery(3 * failCooldown)}},
		"on time, however long nothing happened": {
			plain(), func(b *bench) {
				pass(10 * time.Second)
				b.end("a", chat, 5, Result{Kind: Failed})
				pass(failCooldown)
			}, []asked{recovery(10*time.Second + failCooldown)}},
		"when the last resort that was out gives its place back": {
			plain(), func(b *bench) {
				b.end("a", chat, 5, Result{Kind: Failed})
				p, _ := b.r.Admit("a", chat, LastResort)
				pass(failCooldown + time.Second)
				p.Done(Result{})
				synctest.Wait()
			}, []asked{recovery(failCooldown + time.Second)}},
		"when callers are not to be the probe any more": {
			plain(byRequest), func(b *bench) {
				b.end("a", chat, 5, Result{Kind: Failed})
				pass(failCooldown + time.Second)
				b.r.Apply(routeOf(nil, server("a"), server("b")))
				synctest.Wait()
			}, []asked{recovery(failCooldown + time.Second)}},
		"when the one whose turn it was has gone": {
			plain(), func(b *bench) {
				b.r.SetPeers([]string{"pod", pod2(t)})
				b.end("a", chat, 5, Result{Kind: Failed})
				pass(failCooldown + time.Second)
				b.r.SetPeers([]string{"pod"})
				synctest.Wait()
			}, []asked{recovery(failCooldown + time.Second)}},
		"also where it went within its probe": {
			plain(), func(b *bench) {
				b.r.SetPeers([]string{"pod", pod2(t)})
				b.end("a", chat, 2, Result{Kind: Silent})
				pass(satCooldown)
				b.r.Adopt(pod2(t), []Record{{ID: "a", State: HalfOpen, Reason: ReasonSaturated, Epoch: 1}})
				pass(45 * time.Second)
				b.r.Forget(pod2(t))
				b.r.SetPeers([]string{"pod"})
				pass(time.Hour)
			}, []asked{recovery(satCooldown + 45*time.Second)}},
		"not beside a peer's at the same hardware, and soon after it": {
			plain(grouped), func(b *bench) {
				b.r.Apply(routeOf(nil, server("a", grouped), server("b", grouped)))
				b.end("a", chat, 2, Result{Kind: Silent})
				out := Record{ID: "b", State: HalfOpen, Reason: ReasonSaturated, Epoch: 9, Remaining: time.Hour}
				pass(satCooldown - 10*time.Second)
				b.r.Adopt("other", []Record{out})
				pass(20 * time.Second)
				out.State = Open
				b.r.Adopt("other", []Record{out})
				pass(wallCheckInterval)
			}, []asked{recovery(satCooldown + 11*time.Second)}},
		"once for each cooldown where it is rejected, and nobody calls": {
			plain(), func(b *bench) {
				left := 9 // no more than that, so that the time goes on
				b.answer = func(ProbeRequest) Result {
					if left--; left < 0 {
						return Result{Kind: Success}
					}
					return Result{Kind: Settled}
				}
				b.end("a", chat, 5, Result{Kind: Failed})
				pass(3*failCooldown + time.Second)
			}, []asked{recovery(failCooldown), recovery(2 * failCooldown), recovery(3 * failCooldown)}},
		"when a last resort that never ends has lost its place": {
			plain(), func(b *bench) {
				b.end("a", chat, 5, Result{Kind: Failed})
				_, _ = b.r.Admit("a", chat, LastResort)
				pass(withSlack(minProbeBound))
			}, []asked{recovery(withSlack(minProbeBound))}},
		"in the dialect that was refused": {
			plain(), func(b *bench) { b.end("a", embeddings, 1, Result{Kind: Refused}); pass(failCooldown) },
			[]asked{{ID: "a", Endpoint: embeddings, Purpose: Recovery, At: failCooldown, Bound: minProbeBound}}},
		"in the dialect that is misconfigured": {
			plain(), func(b *bench) { b.end("a", embeddings, 1, Result{Kind: Misconfigured}); pass(failCooldown) },
			[]asked{{ID: "a", Endpoint: embeddings, Purpose: Recovery, At: failCooldown, Bound: minProbeBound}}},
		"in the dialect of the last resort that failed": {
			plain(), func(b *bench) {
				b.end("a", chat, 1, Result{Kind: Misconfigured})
				p, _ := b.r.Admit("a", embeddings, LastResort)
				p.Done(Result{Kind: Misconfigured})
				pass(failCooldown)
			}, []asked{{ID: "a", Endpoint: embeddings, Purpose: Recovery, At: failCooldown, Bound: minProbeBound}}},
		"for a chat where no dialect is known": {
			plain(), func(b *bench) {
				b.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonFailing, Epoch: 1, Remaining: time.Second}})
				pass(time.Second)
			}, []asked{recovery(time.Second)}},
		"in the dialect that last failed": {
			plain(), func(b *bench) { b.end("a", embeddings, 2, Result{Kind: Silent}); pass(satCooldown) },
			[]asked{{ID: "a", Endpoint: embeddings, Purpose: Recovery, At: satCooldown, Bound: minProbeBound}}},
		"no longer than its bound": {
			plain(), func(b *bench) {
				b.answers(Result{})
				b.end("a", chat, 2, Result{Kind: Silent})
				pass(satCooldown + minProbeBound)
			}, []asked{{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown, Bound: minProbeBound, CutAfter: minProbeBound}}},
		"not where callers are to be the probe": {
			plain(byRequest), func(b *bench) { b.end("a", chat, 2, Result{Kind: Silent}); pass(2 * satCooldown) }, nil},
		"not a backend that no table names any more, and calls off one that is out": {
			plain(), func(b *bench) {
				b.answers(Result{})
				b.end("a", chat, 2, Result{Kind: Silent})
				pass(satCooldown + time.Second)
				b.r.Apply(routeOf(nil, server("b")))
				pass(2 * satCooldown)
			}, []asked{{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown, Bound: minProbeBound, CutAfter: time.Second}}},
		"not a backend that an active pin rests, until the pin ends": {
			pinnedTo(table.PinPrefer, "b", 0, time.Hour),
			func(b *bench) { b.end("a", chat, 2, Result{Kind: Silent}); pass(2 * time.Hour) },
			[]asked{{ID: "a", Endpoint: chat, Purpose: Recovery, At: time.Hour, Bound: slowAfter + 2*time.Minute}}},
		"and calls off one that is out when the pin starts": {
			pinnedTo(table.PinAvoid, "a", satCooldown+10*time.Second+300*time.Millisecond, 10*time.Hour), func(b *bench) {
				b.end("a", chat, 1, Result{Kind: Refused, Quota: true})
				b.answers(Result{})
				pass(time.Hour)
			}, []asked{{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown, Bound: slowAfter + 2*time.Minute, CutAfter: 10*time.Second + 300*time.Millisecond}}},
		"which tells nothing: the backend is asked when the pin ends": {
			pinnedTo(table.PinAvoid, "a", satCooldown+10*time.Second, satCooldown+70*time.Second), func(b *bench) {
				b.end("a", chat, 1, Result{Kind: Refused, Quota: true})
				b.answers(Result{})
				pass(satCooldown + 30*time.Second)
				b.answers(Result{Kind: Success})
				pass(10 * time.Minute)
			}, []asked{
				{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown, Bound: slowAfter + 2*time.Minute, CutAfter: 10 * time.Second},
				{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown + 70*time.Second, Bound: slowAfter + 2*time.Minute},
			}},
		"and calls off what is out when Run ends": {
			plain(), func(b *bench) {
				b.answers(Result{})
				b.end("a", chat, 2, Result{Kind: Silent})
				pass(satCooldown + time.Second)
			}, []asked{{ID: "a", Endpoint: chat, Purpose: Recovery, At: satCooldown, Bound: minProbeBound, CutAfter: time.Second}}},
		"takes over when its first has no news": {
			plain(), func(b *bench) {
				b.r.SetPeers([]string{"pod", pod2(t)})
				b.end("a", chat, 2, Result{Kind: Silent})
				pass(time.Hour)
			}, []asked{recovery(satCooldown + minProbeBound + newsDelay)}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { inBubble(t, tc.table, tc.do, tc.want) })
	}
}

// pod2 is a name that comes before "pod" in the choice of who probes "a".
func pod2(t *testing.T) string {
	for _, name := range []string{"p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"} {
		if rendezvous("a", "pod", []string{"pod", name}) == 1 {
			return name
		}
	}
	t.Fatal("no name comes first")
	return ""
}

func TestRunSuspicion(t *testing.T) {
	suspicion := asked{ID: "a", Endpoint: chat, Purpose: Suspicion, Bound: slowAfter}
	silent := suspicion
	silent.CutAfter = slowAfter
	suspect := func(b *bench) { b.r.Suspect("a", chat); synctest.Wait() }
	cases := map[string]struct {
		table     func(time.Time) *table.Table
		do        func(b *bench)
		want      []asked
		wantState State
	}{
		"an answer settles it": {plain(), suspect, []asked{suspicion}, Closed},
		"silence counts as saturation": {
			plain(), func(b *bench) {
				b.end("a", chat, 1, Result{Kind: Silent})
				b.answers(Result{})
				suspect(b)
				pass(slowAfter)
			}, []asked{silent}, Open},
		"one at a time": {
			plain(), func(b *bench) { b.answers(Result{}); suspect(b); suspect(b); pass(slowAfter) }, []asked{silent}, Closed},
		"called off when a pin starts, which tells nothing": {
			pinnedTo(table.PinOnly, "b", 10*time.Second, time.Hour), func(b *bench) {
				pass(9 * time.Second)
				b.answers(Result{})
				suspect(b)
				pass(time.Minute)
			}, []asked{{ID: "a", Endpoint: chat, Purpose: Suspicion, At: 9 * time.Second, Bound: slowAfter, CutAfter: time.Second}}, Closed},
		"none of a rested backend": {pinnedTo(table.PinOnly, "b", 0, time.Hour), suspect, nil, Closed},
		"none of an open one": {
			plain(), func(b *bench) { b.end("a", chat, 2, Result{Kind: Silent}); suspect(b) }, nil, Open},
		"none where slowAfter is off": {
			plain(func(b *table.Backend) { b.Saturation.SlowAfter = 0 }), suspect, nil, Closed},
		"none of an unknown one": {plain(), func(b *bench) { b.r.Suspect("z", chat) }, nil, Closed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.table, func(b *bench) {
				tc.do(b)
				if got := b.r.View("a", chat).State; got != tc.wantState {
					t.Errorf("the breaker is %s, want %s", got, tc.wantState)
				}
			}, tc.want)
		})
	}
}

func TestRunColdStart(t *testing.T) {
	const grace = 2 * time.Minute
	cold := asked{ID: "a", Endpoint: chat, Purpose: ColdStart, Bound: grace}
	cut := func(after time.Duration) asked {
		a := cold
		a.CutAfter = after
		return a
	}
	silence := func(b *bench, n int) { b.end("a", chat, n, Result{Kind: Silent}) }
	cases := map[string]struct {
		table func(time.Time) *table.Table
		do    func(b *bench)
		want  []asked
		// wantCount is what is left of the saturation count.
		wantCount int
		wantState State
	}{
		"a token in time clears the count: it was cold": {
			plain(graceful), func(b *bench) { silence(b, 1) }, []asked{cold}, 0, Closed},
		"and closes what that silence opened": {
			plain(graceful, func(b *table.Backend) { b.Saturation.Threshold = 1 }),
			func(b *bench) { silence(b, 1) }, []asked{cold}, 0, Closed},
		"no token within the grace leaves the count": {
			plain(graceful), func(b *bench) { b.answers(Result{}); silence(b, 1); pass(grace) }, []asked{cut(grace)}, 1, Closed},
		"one at a time, and the first stands for the second silence too": {
			plain(graceful), func(b *bench) { b.answers(Result{}); silence(b, 2); pass(grace) }, []asked{cut(grace)}, 2, Open},
		"none without grace": {plain(), func(b *bench) { silence(b, 1) }, nil, 1, Closed},
		"none at a rested backend": {
			pinnedTo(table.PinPrefer, "b", 0, time.Hour), func(b *bench) { silence(b, 1) }, nil, 1, Closed},
		"stops when a pin starts": {
			pinnedTo(table.PinPrefer, "b", 10*time.Second, time.Hour),
			func(b *bench) { b.answers(Result{}); silence(b, 1); pass(grace) }, []asked{cut(10 * time.Second)}, 1, Closed},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.table, func(b *bench) {
				tc.do(b)
				x := &rig{t: t, r: b.r}
				if got := x.record("a").Saturations; got != tc.wantCount {
					t.Errorf("%d saturations are left, want %d", got, tc.wantCount)
				}
				if got := b.r.View("a", chat).State; got != tc.wantState {
					t.Errorf("the breaker is %s, want %s", got, tc.wantState)
				}
			}, tc.want)
		})
	}
}

// steppedClock is the bubble's clock with a wall that can be stepped.
type steppedClock struct {
	Clock
	step atomic.Int64
}

func (c *steppedClock) Wall() time.Time { return c.Clock.Wall().Add(time.Duration(c.step.Load())) }

// Pins go by wall time: a step into one calls off what is out within a second, a step out of it lets the probe go.
func TestRunFollowsAWallClockThatIsStepped(t *testing.T) {
	var clock *steppedClock
	stepInto := func(b *bench) {
		clock = &steppedClock{Clock: b.r.clock}
		b.r.mu.Lock()
		b.r.clock = clock
		b.r.mu.Unlock()
		b.end("a", chat, 1, Result{Kind: Refused, RetryAfter: time.Minute})
		b.answers(Result{})
		pass(time.Minute + 5*time.Second)
		clock.step.Store(int64(10 * time.Hour))
		pass(time.Minute)
		b.answers(Result{Kind: Success})
		clock.step.Store(0)
		pass(time.Second)
	}
	probe := asked{ID: "a", Endpoint: chat, Purpose: Recovery, At: time.Minute, Bound: slowAfter + 2*time.Minute}
	cut, again := probe, probe
	cut.CutAfter = 6 * time.Second // the step, and the second in which it is noticed
	again.At = 2*time.Minute + 6*time.Second
	inBubble(t, pinnedTo(table.PinPrefer, "b", 9*time.Hour, 20*time.Hour), stepInto, []asked{cut, again})
}

func TestJitterIsATenthAtMost(t *testing.T) {
	for name, tc := range map[string]struct {
		jitter func(time.Duration) time.Duration
		want   time.Duration
	}{
		"a whole tenth":             {func(d time.Duration) time.Duration { return d / 10 }, satCooldown / 10},
		"more than that is cut":     {func(d time.Duration) time.Duration { return d }, satCooldown / 10},
		"and it never comes before": {func(d time.Duration) time.Duration { return -d }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []Kind{Silent, Settled} {
				x := newRig(t, "pod", server("a"))
				x.r.jitter = tc.jitter
				x.silent("a", 2)
				x.clock.pass(satCooldown)
				x.probe("a", Result{Kind: kind})
				if got := x.view("a").Remaining - satCooldown; got != tc.want {
					t.Errorf("jitter %s after %v, want %s", got, kind, tc.want)
				}
			}
		})
	}
	r := New(Options{})
	for range 100 {
		if j := r.jitter(time.Second); j < 0 || j > time.Second/10 {
			t.Fatalf("jitter of a second: %s", j)
		}
	}
}
