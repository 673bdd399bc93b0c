package breaker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// What a probe says of its own, beside closing or re-opening the breaker.
func TestProbesTellMoreThanWhetherItIsOver(t *testing.T) {
	saturatedDue := func(x *rig) { x.silent("a", 2); x.clock.pass(satCooldown) }
	failingDue := func(x *rig) { x.failed("a", 5); x.clock.pass(failCooldown) }
	runScenarios(t, map[string]scenario{
		"a rejected probe of ours leaves a failing one to the next caller, too": {
			do:   func(x *rig) { failingDue(x); x.probe("a", Result{Kind: Settled}) },
			want: View{State: Open, Reason: ReasonFailing, Remaining: failCooldown, Usable: true}},
		"whose settled answer closes it": {
			do: func(x *rig) {
				failingDue(x)
				x.probe("a", Result{Kind: Settled})
				x.admit("a", chat, Normal).Done(Result{Kind: Settled})
			}, want: closedView},
		"a settled answer clears no count: the next failure in a row opens it again": {
			backends: []table.Backend{server("a", byRequest)},
			do: func(x *rig) {
				failingDue(x)
				x.admit("a", chat, Normal).Done(Result{Kind: Settled})
				x.failed("a", 1)
			}, want: openView(ReasonFailing, failCooldown)},
		"callers that settle while capacity is in doubt make no news": {
			do: func(x *rig) {
				saturatedDue(x)
				x.probe("a", Result{Kind: Settled})
				before := x.record("a").Epoch
				for range 5 {
					x.admit("a", chat, Normal).Done(Result{Kind: Settled})
				}
				if got := x.record("a").Epoch; got != before {
					x.t.Errorf("epoch %d, was %d", got, before)
				}
			}, want: View{State: Open, Reason: ReasonSaturated, Remaining: satCooldown, Usable: true}},
		"news of another opening ends the wait for a caller": {
			do: func(x *rig) {
				saturatedDue(x)
				x.probe("a", Result{Kind: Settled})
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 9, Remaining: time.Minute}})
			}, want: openView(ReasonSaturated, time.Minute)},
		"failed probes of a saturated backend are failures in a row": {
			do: func(x *rig) {
				saturatedDue(x)
				for range 5 {
					x.probe("a", Result{Kind: Failed})
					x.clock.pass(satCooldown)
				}
				if !x.backend("a").open[failing].on {
					x.t.Error("five failures in a row did not open the other class")
				}
			}, want: View{State: Open, Reason: ReasonSaturated}},
		"a failed probe of a misconfigured backend is a failure": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Misconfigured})
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Failed})
			}, want: openView(ReasonFailing, failCooldown)},
		"a token from before an adopted opening does not close it": {
			backends: []table.Backend{server("a", byRequest)},
			do: func(x *rig) {
				saturatedDue(x)
				p := x.admit("a", chat, Normal)
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 9, Remaining: time.Minute}})
				p.Token()
				p.Done(Result{Kind: Success})
			}, want: openView(ReasonSaturated, time.Minute)},
		"a pair that is passed over is no probe": {
			backends: []table.Backend{server("a", byRequest)},
			do: func(x *rig) {
				x.failed("a", 5)
				x.clock.pass(failCooldown)
				x.admit("a", chat, Normal).Done(Result{Kind: EndpointMissing})
				if _, ok := x.r.Admit("a", chat, Normal); ok {
					x.t.Error("the pair was asked again")
				}
				if x.view("a").Usable {
					x.t.Error("the pair is said to be usable")
				}
				x.admit("a", embeddings, Normal)
			}, want: View{State: HalfOpen, Reason: ReasonFailing}},
	})
}

func TestWhatIsCountedAndWhatIsNot(t *testing.T) {
	type counts struct{ Saturations, Failures int }
	cases := map[string]struct {
		backend table.Backend
		do      func(x *rig)
		want    counts
	}{
		"a refusal opens uncounted":      {server("a"), func(x *rig) { x.ends("a", 1, Result{Kind: Refused}) }, counts{}},
		"and so does a misconfiguration": {server("a"), func(x *rig) { x.ends("a", 1, Result{Kind: Misconfigured}) }, counts{}},
		"a silent probe is a silence in a row": {server("a"), func(x *rig) {
			x.silent("a", 2)
			x.clock.pass(satCooldown)
			x.probe("a", Result{Kind: Silent})
		}, counts{Saturations: 3}},
		"unless somebody else's answer is in progress": {server("a", oneSlot), func(x *rig) {
			x.silent("a", 2)
			x.clock.pass(satCooldown)
			x.backend("a").lastToken.Store(int64(x.clock.Monotonic()))
			x.probe("a", Result{Kind: Silent})
		}, counts{Saturations: 2}},
		"in the first moments of a process there was no token yet": {server("a", oneSlot), func(x *rig) {
			x.clock.mono = slowAfter
			x.silent("a", 1)
		}, counts{Saturations: 1}},
		"one's own opening for failures leaves the saturation count": {server("a"), func(x *rig) {
			x.silent("a", 1)
			x.failed("a", 5)
		}, counts{Saturations: 1, Failures: 5}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, "pod", tc.backend)
			tc.do(x)
			rec := x.record("a")
			if diff := cmp.Diff(tc.want, counts{rec.Saturations, rec.Failures}); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

// A report is written at once for openings, closings and counts that leave or return to zero; the rest may wait.
func TestWhatIsUrgent(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	open := []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 9, Remaining: time.Minute}}
	var late *Permit
	for _, step := range []struct {
		name       string
		do         func()
		wantUrgent bool
	}{
		{"a count leaves zero", func() { x.failed("a", 1) }, true},
		{"a count goes on", func() { x.failed("a", 1) }, false},
		{"a count returns to zero", func() { x.ends("a", 1, Result{Kind: Success}) }, true},
		{"a count is cleared by a peer's good answer", func() {
			x.failed("a", 1)
			x.urgent = 0
			x.r.Adopt("other", []Record{{ID: "a", State: Closed, LastGood: 5}})
		}, true},
		{"a count runs out", func() { x.failed("a", 1); x.urgent = 0; x.clock.pass(2 * time.Hour); x.view("a") }, true},
		{"an opening", func() { late = x.admit("a", chat, Normal); x.ends("a", 1, Result{Kind: Refused}) }, true},
		{"a late answer that extends it", func() { late.Done(Result{Kind: Refused, RetryAfter: time.Minute}) }, false},
		{"a probe that goes out, and comes back without news", func() { x.admit("a", chat, LastResort).Done(Result{}) }, false},
		{"a closing by what settles", func() {
			x.clock.pass(time.Minute)
			x.admit("a", chat, LastResort).Done(Result{Kind: Success})
			x.ends("a", 1, Result{Kind: Misconfigured})
			x.urgent, x.changes = 0, 0
			x.admit("a", chat, LastResort).Done(Result{Kind: Settled})
		}, true},
		{"an opening again", func() { x.ends("a", 1, Result{Kind: Refused}) }, true},
		{"a re-opening", func() { x.clock.pass(time.Minute); x.probe("a", Result{Kind: Failed}) }, true},
		{"a closing", func() { x.admit("a", chat, LastResort).Done(Result{Kind: Success}) }, true},
		{"what another proxy has told everybody already", func() { x.r.Adopt("other", open) }, false},
		{"a pair that is passed over", func() {
			x.r.Adopt("other", []Record{{ID: "a", State: Closed, Epoch: 10}})
			x.urgent = 0
			x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing})
		}, true},
		{"a pair that answers again", func() { x.admit("a", embeddings, LastResort).Done(Result{Kind: Success}) }, false},
		{"a pair whose time is over", func() {
			x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing})
			x.urgent, x.changes = 0, 0
			x.clock.pass(failCooldown)
			x.view("a")
		}, false},
		{"a count that runs out together with a pair", func() {
			x.failed("a", 1)
			x.clock.pass(time.Hour)
			x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing})
			x.urgent, x.changes = 0, 0
			x.clock.pass(time.Hour)
			x.view("a")
		}, true},
		{"a backend that is gone", func() {
			x.failed("a", 1)
			x.urgent, x.changes = 0, 0
			x.apply()
		}, false},
	} {
		x.urgent, x.changes = 0, 0
		step.do()
		if x.changes == 0 || x.urgent > 0 != step.wantUrgent {
			t.Errorf("%s: %d changes, %d of them urgent, want urgent %v", step.name, x.changes, x.urgent, step.wantUrgent)
		}
	}
}

func TestSentencesOfAnOpening(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.ends("a", 1, Result{Kind: Refused, Message: "said 429"})
	x.clock.pass(failCooldown)
	x.probe("a", Result{Kind: unanswered})
	if got := x.view("a").Message; got != "said 429" {
		t.Errorf("a probe without news made it %q", got)
	}
	x.clock.pass(2 * failCooldown)
	x.probe("a", Result{Kind: Failed, Message: "said 500"})
	if got := x.view("a").Message; got != "said 500" {
		t.Errorf("a probe with news left it %q", got)
	}
	y := newRig(t, "pod", server("a", func(b *table.Backend) { b.Saturation.SlowAfter = 0 }), server("b"), server("c"))
	y.silent("a", 2)
	y.ends("b", 1, Result{Kind: Refused, Quota: true})
	y.ends("c", 1, Result{Kind: Refused})
	for id, want := range map[string]string{"a": "no first token in time", "b": "the account's quota is spent", "c": "refused for want of capacity"} {
		if got := y.view(id).Message; got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// A backend that left the table is nobody's news, whatever its last requests end in.
func TestAGoneBackendIsSilent(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.silent("a", 2)
	old := x.admit("a", chat, LastResort)
	x.apply(server("b"))
	before := len(x.transitions)
	old.Token()
	old.Done(Result{Kind: Misconfigured})
	if got := len(x.transitions) - before; got != 0 {
		t.Errorf("%d transitions after it was gone", got)
	}
	if got := x.r.Records(); len(got) != 0 {
		t.Errorf("it is still reported: %+v", got)
	}
}

// With probes that callers make, a model may be cold as well: what goes silent leaves one detached request. A probe of our
// own waits for as long itself.
func TestSilentProbesAndColdModels(t *testing.T) {
	wanted := func(x *rig) bool { _, is := x.backend("a").wanted[ColdStart]; return is }
	x := newRig(t, "pod", server("a", graceful, byRequest))
	x.silent("a", 2)
	clear(x.backend("a").wanted)
	x.clock.pass(satCooldown)
	x.admit("a", chat, Normal).Done(Result{Kind: Silent})
	if !wanted(x) {
		t.Error("a caller's silent probe left no detached request")
	}
	y := newRig(t, "pod", server("a", graceful))
	y.silent("a", 2)
	clear(y.backend("a").wanted)
	y.clock.pass(satCooldown)
	y.probe("a", Result{Kind: Silent})
	if wanted(y) {
		t.Error("our own silent probe left another request")
	}
	for _, res := range []Result{{Kind: Failed}, {Kind: Refused}} {
		v := newRig(t, "pod", server("a", graceful))
		v.silent("a", 2)
		clear(v.backend("a").wanted)
		v.admit("a", chat, LastResort).Done(res)
		if wanted(v) {
			t.Errorf("%+v left a detached request", res)
		}
	}
	z := newRig(t, "pod", server("a", graceful))
	z.silent("a", 1)
	z.ends("a", 1, Result{Kind: Success})
	if wanted(z) {
		t.Error("it answered meanwhile, and is to be asked all the same")
	}
}

// The token of a detached request tells of the silence that it was left for, and of those since then.
func TestAColdModelsToken(t *testing.T) {
	token := func(x *rig, p *Permit) {
		x.r.mu.Lock()
		defer x.r.unlock()
		x.r.finishColdStart(p, Result{Kind: Success})
	}
	left := func(x *rig) *Permit {
		b := x.backend("a")
		p := &Permit{registry: x.r, backend: b, endpoint: chat, generation: b.generation.Load(), synthetic: true}
		b.jobs = map[Purpose]*job{ColdStart: {purpose: ColdStart, permit: p}}
		return p
	}
	x := newRig(t, "pod", server("a", graceful))
	x.silent("a", 1)
	p := left(x)
	x.ends("a", 1, Result{Kind: Misconfigured})
	token(x, p)
	if got, rec := x.view("a").State, x.record("a"); got != Open || rec.Saturations != 0 {
		t.Errorf("opened for something else: %s with %d saturations, want Open with none", got, rec.Saturations)
	}
	y := newRig(t, "pod", server("a", graceful))
	y.silent("a", 1)
	p = left(y)
	y.silent("a", 1)
	token(y, p)
	if got := y.view("a").State; got != Closed {
		t.Errorf("opened by the silence that the token explains: %s", got)
	}
	for name, tc := range map[string]struct {
		peer Record
		want State
	}{
		"another proxy's silence, together with one's own":      {Record{State: Closed, Saturations: 1}, Closed},
		"another proxy, for silence":                            {Record{State: Open, Reason: ReasonSaturated, Epoch: 1, Remaining: time.Minute}, Closed},
		"another proxy, for a refusal":                          {Record{State: Open, Reason: ReasonRefused, Epoch: 1, Remaining: time.Minute}, Open},
		"another proxy, for the silence of one at its hardware": {Record{State: Open, Reason: ReasonGroupSaturated, Epoch: 1, Remaining: time.Minute}, Open},
	} {
		z := newRig(t, "pod", server("a", graceful))
		z.silent("a", 1)
		p := left(z)
		tc.peer.ID = "a"
		z.r.Adopt("other", []Record{tc.peer})
		if got := z.view("a").State; got != Open {
			t.Fatalf("opened by %s: %s", name, got)
		}
		token(z, p)
		if got, rec := z.view("a").State, z.record("a"); got != tc.want || rec.Saturations != 0 {
			t.Errorf("opened by %s: %s with %d saturations, want %s with none", name, got, rec.Saturations, tc.want)
		}
	}
}

// A breaker that opens between the suspicion and its request makes the request pointless.
func TestNoSuspicionOfWhatHasOpened(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.r.Suspect("a", chat)
	x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Hour})
	var jobs sync.WaitGroup
	x.r.dispatch(&runner{t.Context(), noProber{t}, &jobs})
	jobs.Wait()
}

// noProber is not to be asked.
type noProber struct{ t *testing.T }

func (p noProber) Probe(_ context.Context, r ProbeRequest) Result {
	p.t.Errorf("asked %+v", r)
	return Result{}
}

func TestARefusedProbesCooldownHasItsJitterToo(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.r.jitter = func(d time.Duration) time.Duration { return d / 10 }
	x.ends("a", 1, Result{Kind: Refused})
	x.clock.pass(failCooldown)
	x.probe("a", Result{Kind: Refused, RetryAfter: 100 * time.Second})
	if got := x.view("a").Remaining; got != 110*time.Second {
		t.Errorf("%s, want 100 s and a tenth", got)
	}
}

// A server without the endpoint that last failed still serves the others: its 404 to a probe of our own must not keep it shut.
func TestAProbeOfAMissingEndpointLeavesTheTurnToACaller(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.admit("a", chat, Normal).Done(Result{Kind: Refused}) // 503 Loading, to whatever path
	x.clock.pass(failCooldown)
	x.probe("a", Result{Kind: EndpointMissing})
	if rec := x.record("a"); rec.State != Open || !rec.AwaitsCaller {
		t.Fatalf("after the 404: %+v", rec)
	}
	if _, ok := x.r.Admit("a", chat, Normal); ok {
		t.Error("the missing endpoint was asked again")
	}
	x.admit("a", embeddings, Normal).Done(Result{Kind: Success})
	if got := x.view("a").State; got != Closed {
		t.Errorf("a good answer left it %s", got)
	}
}
