package breaker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// sharedBy makes a table in which several routes name the backend "a", each with waits of its own.
func sharedBy(waits ...table.Saturation) func(time.Time) *table.Table {
	return func(time.Time) *table.Table {
		var routes []*table.Route
		for i, w := range waits {
			a := server("a", func(b *table.Backend) {
				b.Saturation.SlowAfter, b.Saturation.ColdStartGrace, b.Saturation.NonStreamingSlowAfter = w.SlowAfter, w.ColdStartGrace, w.NonStreamingSlowAfter
			})
			routes = append(routes, &table.Route{Namespace: "ns", Name: string(rune('k' + i)), Chain: []table.Backend{a, server("b")}})
		}
		return table.New(routes)
	}
}

// One backend, and routes that differ in how long they wait for it: whichever of them stands first, requests of our own go by
// what any of them asks for.
func TestRoutesThatDifferInPatience(t *testing.T) {
	patient := table.Saturation{SlowAfter: time.Minute, ColdStartGrace: 4 * time.Minute, NonStreamingSlowAfter: 20 * time.Minute}
	hasty := table.Saturation{SlowAfter: 10 * time.Second, NonStreamingSlowAfter: 10 * time.Minute}
	off := table.Saturation{}
	ask := func(purpose Purpose, bound time.Duration) asked {
		return asked{ID: "a", Endpoint: chat, Purpose: purpose, Bound: bound}
	}
	suspect := func(b *bench) { b.r.Suspect("a", chat); synctest.Wait() }
	silence := func(b *bench) { b.end("a", chat, 1, Result{Kind: Silent, SlowAfter: time.Minute}) }
	probed := func(b *bench) {
		b.end("a", chat, 1, Result{Kind: Refused, RetryAfter: time.Second})
		pass(time.Second)
	}
	recovery := ask(Recovery, 5*time.Minute)
	recovery.At = time.Second
	cases := map[string]struct {
		do   func(b *bench)
		want asked
	}{
		"suspicion waits for the shortest that is on": {suspect, ask(Suspicion, 10*time.Second)},
		"a cold model gets the longest grace":         {silence, ask(ColdStart, 4*time.Minute)},
		"a probe gets the longest bound":              {probed, recovery},
	}
	for name, tc := range cases {
		for order, waits := range map[string][]table.Saturation{
			"the one without limits first": {off, hasty, patient}, "last": {patient, hasty, off}, "between": {hasty, off, patient},
		} {
			t.Run(name+", "+order, func(t *testing.T) { inBubble(t, sharedBy(waits...), tc.do, []asked{tc.want}) })
		}
	}
}

// The lease of a probe outlasts what any route lets a caller wait.
func TestALeaseOutlastsEveryRoutesPatience(t *testing.T) {
	x := newRig(t, "pod")
	x.r.Apply(sharedBy(table.Saturation{}, table.Saturation{SlowAfter: time.Minute, NonStreamingSlowAfter: 20 * time.Minute})(epoch0))
	x.failed("a", 5)
	p := x.admit("a", chat, LastResort)
	x.clock.pass(20 * time.Minute)
	if got := x.view("a").State; got != HalfOpen {
		t.Errorf("%s after twenty minutes, want HalfOpen", got)
	}
	p.Done(Result{Kind: Success})
	if diff := cmp.Diff(closedView, x.view("a")); diff != "" {
		t.Errorf("after its answer (-want +got):\n%s", diff)
	}
}

// Where slowAfter is off a silent probe of ours re-opens what is open, and says nothing of saturation. Elsewhere its sentence
// tells for how long it waited.
func TestASilentProbe(t *testing.T) {
	cases := map[string]struct {
		slowAfter   time.Duration
		wantCount   int
		wantReason  Reason
		wantMessage string
	}{
		"where slowAfter is on":  {slowAfter, 2, ReasonSaturated, "no first token within 2m0s"},
		"where slowAfter is off": {0, 0, ReasonFailing, "said 500"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			probe := asked{ID: "a", Endpoint: chat, Purpose: Recovery, At: failCooldown, Bound: minProbeBound, CutAfter: minProbeBound}
			again := probe
			again.At += failCooldown + minProbeBound
			inBubble(t, plain(func(b *table.Backend) { b.Saturation.SlowAfter = tc.slowAfter }), func(b *bench) {
				b.answers(Result{})
				b.end("a", chat, 5, Result{Kind: Failed, Message: "said 500"})
				pass(again.At + again.CutAfter)
				x := &rig{t: t, r: b.r}
				v := b.r.View("a", chat)
				if v.State != Open || v.Reason != tc.wantReason || v.Message != tc.wantMessage || x.record("a").Saturations != tc.wantCount {
					t.Errorf("%+v with %d saturations", v, x.record("a").Saturations)
				}
			}, []asked{probe, again})
		})
	}
}

// Shards arrive one by one: meanwhile the smallest limits hold, whichever route stands first.
func TestTheSmallestLimitsHold(t *testing.T) {
	type limits struct {
		Threshold [classes]int
		Cooldown  [classes]time.Duration
		Names     []string
	}
	low := server("a", func(b *table.Backend) {
		b.Failure, b.Saturation.Threshold, b.Saturation.Cooldown = table.Failure{Threshold: 3, Cooldown: time.Second}, 1, time.Minute
	})
	named := server("a", func(b *table.Backend) { b.Name = "z" })
	for name, chains := range map[string][]table.Backend{"first": {low, server("a"), named}, "last": {named, server("a"), low}} {
		t.Run(name, func(t *testing.T) {
			var routes []*table.Route
			for i, b := range chains {
				routes = append(routes, &table.Route{Namespace: "ns", Name: string(rune('k' + i)), Chain: []table.Backend{b}})
			}
			x := newRig(t, "pod")
			x.r.Apply(table.New(routes))
			c := x.backend("a").cfg
			want := limits{[classes]int{3, 1}, [classes]time.Duration{time.Second, time.Minute}, []string{"a", "z"}}
			if diff := cmp.Diff(want, limits{c.threshold, c.cooldown, c.names}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// faulty is a prober that fails by itself, at once.
type faulty struct{ asked int }

func (f *faulty) Probe(context.Context, ProbeRequest) Result { f.asked++; return Result{} }

// A probe that ends by a fault of ours re-opens the breaker and says nothing of the backend.
func TestAProbeThatFailsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := New(Options{Jitter: noJitter}), &faulty{}
		r.Apply(routeOf(nil, server("a")))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx, p) }()
		b := &bench{r: r}
		b.end("a", chat, 5, Result{Kind: Failed})
		pass(3 * failCooldown)
		rec := (&rig{t: t, r: r}).record("a")
		if p.asked != 3 || rec.State != Open || rec.Remaining != failCooldown || rec.Saturations != 0 || rec.Failures != 5 {
			t.Errorf("asked %d times, %+v", p.asked, rec)
		}
		cancel()
		<-ended
	})
}
