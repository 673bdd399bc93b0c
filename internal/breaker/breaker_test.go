package breaker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-dev/spillway/internal/table"
)

// closedView, openView and halfOpenView are what the tables below expect.
var closedView = View{State: Closed, Usable: true}

func openView(reason Reason, remaining time.Duration) View {
	return View{State: Open, Reason: reason, Remaining: remaining}
}

// scenario is one sentence of the design: what happens to backend "a", and how its breaker then stands.
type scenario struct {
	backends []table.Backend // default: one "a"
	do       func(x *rig)
	want     View
}

func runScenarios(t *testing.T, cases map[string]scenario) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.backends == nil {
				tc.backends = []table.Backend{server("a")}
			}
			x := newRig(t, "pod", tc.backends...)
			tc.do(x)
			if diff := cmp.Diff(tc.want, x.view("a"), cmpopts.IgnoreFields(View{}, "Message")); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOutcomesMoveTheBreaker(t *testing.T) {
	runScenarios(t, map[string]scenario{
		"one silence is not enough":      {do: func(x *rig) { x.silent("a", 1) }, want: closedView},
		"two silences in a row open it":  {do: func(x *rig) { x.silent("a", 2) }, want: openView(ReasonSaturated, satCooldown)},
		"four failures are not enough":   {do: func(x *rig) { x.failed("a", 4) }, want: closedView},
		"five failures in a row open it": {do: func(x *rig) { x.failed("a", 5) }, want: openView(ReasonFailing, failCooldown)},
		"neutral results count nothing":  {do: func(x *rig) { x.ends("a", 50, Result{}) }, want: closedView},
		"settled results count nothing":  {do: func(x *rig) { x.ends("a", 50, Result{Kind: Settled}) }, want: closedView},
		"misconfigured opens at once":    {do: func(x *rig) { x.ends("a", 1, Result{Kind: Misconfigured}) }, want: openView(ReasonMisconfigured, failCooldown)},
		"a refusal without a time opens it for the failure cooldown": {
			do: func(x *rig) { x.ends("a", 1, Result{Kind: Refused}) }, want: openView(ReasonRefused, failCooldown)},
		"a refusal with a time opens it for that time": {
			do: func(x *rig) { x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Hour}) }, want: openView(ReasonRefused, time.Hour)},
		"a refusal asks for 24 hours at most": {
			do: func(x *rig) { x.ends("a", 1, Result{Kind: Refused, RetryAfter: 1e6 * time.Hour}) }, want: openView(ReasonRefused, 24*time.Hour)},
		"a negative time is none": {
			do: func(x *rig) { x.ends("a", 1, Result{Kind: Refused, RetryAfter: -time.Hour}) }, want: openView(ReasonRefused, failCooldown)},
		"a spent quota opens it for the saturation cooldown": {
			do: func(x *rig) { x.ends("a", 1, Result{Kind: Refused, Quota: true, RetryAfter: time.Second}) }, want: openView(ReasonQuota, satCooldown)},
		"a good answer clears both counts": {
			do: func(x *rig) {
				x.silent("a", 1)
				x.failed("a", 4)
				x.ends("a", 1, Result{Kind: Success})
				x.silent("a", 1)
				x.failed("a", 4)
			}, want: closedView},
		"opening for one class does not touch the other's count": {
			do: func(x *rig) {
				x.silent("a", 1)
				x.failed("a", 5)
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Silent})
			}, want: openView(ReasonSaturated, satCooldown)},
		"a count dies an hour after its last event": {
			do: func(x *rig) { x.silent("a", 1); x.clock.pass(time.Hour + 1); x.silent("a", 1) }, want: closedView},
		"a count lives within the hour": {
			do: func(x *rig) { x.silent("a", 1); x.clock.pass(time.Hour); x.silent("a", 1) }, want: openView(ReasonSaturated, satCooldown)},
		"a count lives as long as a cooldown that is longer": {
			backends: []table.Backend{server("a", func(b *table.Backend) { b.Saturation.Cooldown = 3 * time.Hour })},
			do:       func(x *rig) { x.silent("a", 1); x.clock.pass(3 * time.Hour); x.silent("a", 1) },
			want:     openView(ReasonSaturated, 3*time.Hour)},
		"at one call a minute a dead backend opens too": {
			do: func(x *rig) {
				for range 5 {
					x.failed("a", 1)
					x.clock.pass(time.Minute)
				}
				x.clock.pass(-time.Minute)
			}, want: openView(ReasonFailing, failCooldown)},
		"a count that died while a request was out does not go on": {
			do: func(x *rig) {
				x.silent("a", 1)
				p := x.admit("a", chat, Normal)
				x.clock.pass(time.Hour + 1)
				p.Done(Result{Kind: Silent})
			}, want: closedView},
		"a missing endpoint leaves the breaker untouched": {
			do:   func(x *rig) { x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing}) },
			want: closedView},
		"an id that no table names is closed": {
			backends: []table.Backend{server("b")}, do: func(x *rig) { x.silent("a", 9) }, want: closedView},
	})
}

func TestRetryAtOnlyMovesAway(t *testing.T) {
	runScenarios(t, map[string]scenario{
		"when both classes are open the later retryAt holds": {
			backends: []table.Backend{server("a", func(b *table.Backend) { b.Failure.Cooldown = time.Hour })},
			do: func(x *rig) {
				x.silent("a", 2)
				x.admit("a", chat, LastResort).Done(Result{Kind: Misconfigured})
			}, want: openView(ReasonMisconfigured, time.Hour)},
		"a misconfiguration from before the opening opens nothing more": {
			do: func(x *rig) {
				old := x.admit("a", chat, Normal)
				x.silent("a", 2)
				old.Done(Result{Kind: Misconfigured})
			}, want: openView(ReasonSaturated, satCooldown)},
		"a result from before the opening extends it": {
			do: func(x *rig) {
				old := x.admit("a", chat, Normal)
				x.silent("a", 2)
				x.clock.pass(time.Minute)
				old.Done(Result{Kind: Silent})
			}, want: openView(ReasonSaturated, satCooldown)},
		"a shorter refusal from before the opening does not shorten it": {
			do: func(x *rig) {
				old := x.admit("a", chat, Normal)
				x.silent("a", 2)
				old.Done(Result{Kind: Refused, RetryAfter: time.Second})
			}, want: openView(ReasonSaturated, satCooldown)},
		"a success from before the opening does not close it": {
			do: func(x *rig) {
				old := x.admit("a", chat, Normal)
				x.silent("a", 2)
				old.Token()
				old.Done(Result{Kind: Success})
			}, want: openView(ReasonSaturated, satCooldown)},
		"failures from before the closing do not re-open it": {
			do: func(x *rig) {
				var old []*Permit
				for range 20 {
					old = append(old, x.admit("a", chat, Normal))
				}
				x.failed("a", 5)
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Success})
				for _, p := range old {
					p.Done(Result{Kind: Failed})
				}
			}, want: closedView},
		"wall-clock steps move nothing (D6)": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.clock.wall = x.clock.wall.Add(time.Hour)
				x.clock.pass(time.Minute)
				x.clock.wall = x.clock.wall.Add(-2 * time.Hour)
			}, want: openView(ReasonSaturated, satCooldown-time.Minute)},
	})
}

func TestTokensOfOthersExcuseSilence(t *testing.T) {
	crowded := []table.Backend{server("a", oneSlot)}
	tokenThenSilences := func(pass time.Duration) func(x *rig) {
		return func(x *rig) {
			x.admit("a", chat, Normal).Token()
			x.clock.pass(pass)
			x.silent("a", 2)
		}
	}
	runScenarios(t, map[string]scenario{
		"a token within slowAfter from a backend with few slots": {
			backends: crowded, do: tokenThenSilences(slowAfter), want: closedView},
		"a token longer ago does not": {
			backends: crowded, do: tokenThenSilences(slowAfter + 1), want: openView(ReasonSaturated, satCooldown)},
		"an answer that goes on excuses it for as long as its tokens come": {
			backends: crowded,
			do: func(x *rig) {
				p := x.admit("a", chat, Normal)
				p.Token()
				x.clock.pass(slowAfter + 1)
				p.Token()
				x.silent("a", 2)
			}, want: closedView},
		"nor one from a backend without maxInFlight": {
			do: tokenThenSilences(time.Second), want: openView(ReasonSaturated, satCooldown)},
		"the limit that was crossed counts, where it is not slowAfter": {
			backends: crowded,
			do: func(x *rig) {
				x.admit("a", chat, Normal).Token()
				x.clock.pass(5 * time.Minute)
				x.ends("a", 2, Result{Kind: Silent, SlowAfter: 10 * time.Minute})
			}, want: closedView},
	})
}

func TestRecovery(t *testing.T) {
	open := func(x *rig) { x.silent("a", 2); x.clock.pass(satCooldown) }
	runScenarios(t, map[string]scenario{
		"when retryAt has passed no caller's turn is spent": {
			do: open, want: View{State: Open, Reason: ReasonSaturated}},
		"the first token of a probe closes it": {
			do: func(x *rig) { open(x); x.probe("a", Result{Kind: Success}) }, want: closedView},
		"a silent probe re-opens it for a whole cooldown": {
			do: func(x *rig) { open(x); x.probe("a", Result{Kind: Silent}) }, want: openView(ReasonSaturated, satCooldown)},
		"so does a failed one": {
			do: func(x *rig) { open(x); x.probe("a", Result{Kind: Failed}) }, want: openView(ReasonSaturated, satCooldown)},
		"so does one without any news": {
			do: func(x *rig) { open(x); x.probe("a", Result{Kind: unanswered}) }, want: openView(ReasonSaturated, satCooldown)},
		"one that was called off changes nothing": {
			do: func(x *rig) { open(x); x.probe("a", Result{}) }, want: View{State: Open, Reason: ReasonSaturated}},
		"a rejected probe leaves it to the next caller, and to no other probe for a whole cooldown": {
			do: func(x *rig) {
				open(x)
				x.probe("a", Result{Kind: Settled})
				if in, _ := x.probeDue("a"); in < satCooldown {
					x.t.Errorf("another probe in %s", in)
				}
			}, want: View{State: Open, Reason: ReasonSaturated, Remaining: satCooldown, Usable: true}},
		"and the next caller's answer closes it": {
			do: func(x *rig) {
				open(x)
				x.probe("a", Result{Kind: Settled})
				x.admit("a", chat, Normal).Done(Result{Kind: Success})
			}, want: closedView},
		"refusals double on each failed probe": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				for range 2 {
					x.clock.pass(x.view("a").Remaining)
					x.probe("a", Result{Kind: Refused})
				}
			}, want: openView(ReasonRefused, 4*failCooldown)},
		"up to the saturation cooldown": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				for range 40 {
					x.clock.pass(x.view("a").Remaining)
					x.probe("a", Result{Kind: Failed})
				}
			}, want: openView(ReasonRefused, satCooldown)},
		"which a longer failure cooldown is not cut down to": {
			backends: []table.Backend{server("a", func(b *table.Backend) { b.Failure.Cooldown = 2 * satCooldown })},
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.clock.pass(2 * satCooldown)
				x.probe("a", Result{Kind: Refused})
			}, want: openView(ReasonRefused, 2*satCooldown)},
		"a refused probe is left alone for what it was told": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Refused, RetryAfter: time.Second})
			}, want: openView(ReasonRefused, time.Second)},
		"but never for less than a second, as often as it may be asked": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused, RetryAfter: 17 * time.Millisecond})
				if got := x.view("a"); got.Remaining != 17*time.Millisecond {
					x.t.Errorf("what a caller met holds it open for %s", got.Remaining)
				}
				x.clock.pass(17 * time.Millisecond)
				x.probe("a", Result{Kind: Refused, RetryAfter: 17 * time.Millisecond})
			}, want: openView(ReasonRefused, time.Second)},
		"and start over after a good answer": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Refused})
				x.clock.pass(2 * failCooldown)
				x.probe("a", Result{Kind: Success})
				x.ends("a", 1, Result{Kind: Refused})
			}, want: openView(ReasonRefused, failCooldown)},
	})
}

func TestACallerAsTheProbe(t *testing.T) {
	backends := []table.Backend{server("a", byRequest)}
	saturatedDue := func(x *rig) { x.silent("a", 2); x.clock.pass(satCooldown) }
	failingDue := func(x *rig) { x.failed("a", 5); x.clock.pass(failCooldown) }
	runScenarios(t, map[string]scenario{
		"is not let through before retryAt": {
			backends: backends, do: func(x *rig) { x.silent("a", 2); x.clock.pass(satCooldown - 1) },
			want: openView(ReasonSaturated, 1)},
		"is wanted when retryAt has passed": {
			backends: backends, do: saturatedDue, want: View{State: Open, Reason: ReasonSaturated, Usable: true}},
		"is the only one": {
			backends: backends, do: func(x *rig) { saturatedDue(x); x.admit("a", chat, Normal) },
			want: View{State: HalfOpen, Reason: ReasonSaturated}},
		"closes it with its first token": {
			backends: backends, do: func(x *rig) { saturatedDue(x); x.admit("a", chat, Normal).Token() }, want: closedView},
		"counts as an ordinary request after its first token": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				p := x.admit("a", chat, Normal)
				p.Token()
				p.Done(Result{Kind: Failed})
				x.failed("a", 4)
			}, want: openView(ReasonFailing, failCooldown)},
		"gives its place back when it was cancelled": {
			backends: backends, do: func(x *rig) { saturatedDue(x); x.admit("a", chat, Normal).Done(Result{}) },
			want: View{State: Open, Reason: ReasonSaturated, Usable: true}},
		"gives its place back once": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				p := x.admit("a", chat, Normal)
				p.Done(Result{})
				x.admit("a", chat, Normal)
				p.Done(Result{})
			}, want: View{State: HalfOpen, Reason: ReasonSaturated}},
		"that settles closes what failures opened": {
			backends: backends, do: func(x *rig) { failingDue(x); x.admit("a", chat, Normal).Done(Result{Kind: Settled}) },
			want: closedView},
		"that settles leaves what saturation opened to the next caller": {
			backends: backends, do: func(x *rig) { saturatedDue(x); x.admit("a", chat, Normal).Done(Result{Kind: Settled}) },
			want: View{State: Open, Reason: ReasonSaturated, Remaining: satCooldown, Usable: true}},
		"that meets a missing endpoint says nothing of the breaker": {
			backends: backends, do: func(x *rig) { failingDue(x); x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing}) },
			want: View{State: Open, Reason: ReasonFailing, Usable: true}},
		"that settles closes what failures opened, and leaves saturation": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				x.admit("a", chat, LastResort).Done(Result{Kind: Misconfigured})
				x.clock.pass(satCooldown)
				x.admit("a", chat, Normal).Done(Result{Kind: Settled})
				if x.backend("a").open[failing].on {
					x.t.Error("still failing")
				}
			}, want: View{State: Open, Reason: ReasonSaturated, Remaining: satCooldown, Usable: true}},
		"keeps its place for its lease": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				x.admit("a", chat, Normal)
				x.clock.pass(x.backend("a").cfg.lease() - 1)
			}, want: View{State: HalfOpen, Reason: ReasonSaturated}},
		"and no longer": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				x.admit("a", chat, Normal)
				x.clock.pass(minProbeBound + minProbeBound/10)
			}, want: View{State: Open, Reason: ReasonSaturated, Usable: true}},
		"keeps its place for as long as it may wait for its token, and a little": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				p := x.admit("a", chat, Normal)
				p.Expect(time.Hour)
				p.Expect(0)
				x.clock.pass(time.Hour + time.Hour/10 - 1)
			}, want: View{State: HalfOpen, Reason: ReasonSaturated}},
		"that never ends is taken back after its lease": {
			backends: backends, do: func(x *rig) {
				saturatedDue(x)
				p := x.admit("a", chat, Normal)
				x.clock.pass(time.Hour)
				x.admit("a", chat, Normal)
				p.Done(Result{Kind: Success}) // too late to tell anything
			}, want: View{State: HalfOpen, Reason: ReasonSaturated}},
	})
}

func TestLastResort(t *testing.T) {
	runScenarios(t, map[string]scenario{
		"is let through before retryAt, one at a time": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.admit("a", chat, LastResort)
				if _, ok := x.r.Admit("a", chat, LastResort); ok {
					x.t.Error("a second one was let through")
				}
			}, want: View{State: HalfOpen, Reason: ReasonSaturated, Remaining: satCooldown}},
		"closes the breaker with a good answer": {
			do: func(x *rig) { x.silent("a", 2); x.admit("a", chat, LastResort).Done(Result{Kind: Success}) }, want: closedView},
		"extends it when it fails": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.clock.pass(time.Minute)
				x.admit("a", chat, LastResort).Done(Result{Kind: Silent})
			}, want: openView(ReasonSaturated, satCooldown)},
		"never shortens it": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Hour})
				x.admit("a", chat, LastResort).Done(Result{Kind: Refused, RetryAfter: time.Second})
			}, want: openView(ReasonRefused, time.Hour)},
		"is an ordinary request where the breaker is closed": {
			do: func(x *rig) { x.admit("a", chat, LastResort); x.admit("a", chat, LastResort) }, want: closedView},
	})
}

func TestMissingEndpoint(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing, Message: "no such endpoint"})
	want := View{State: Closed, Reason: ReasonEndpointMissing, Remaining: failCooldown, Message: "no such endpoint"}
	if diff := cmp.Diff(want, x.r.View("a", embeddings)); diff != "" {
		t.Errorf("the pair (-want +got):\n%s", diff)
	}
	if _, ok := x.r.Admit("a", embeddings, Normal); ok {
		t.Error("the pair was not passed over")
	}
	x.ends("a", 1, Result{Kind: Success}) // chat goes on

	trial := x.admit("a", embeddings, LastResort)
	if _, ok := x.r.Admit("a", embeddings, LastResort); ok {
		t.Error("two last resorts at one pair")
	}
	trial.Done(Result{})
	x.admit("a", embeddings, LastResort).Done(Result{Kind: Success})
	if diff := cmp.Diff(closedView, x.r.View("a", embeddings)); diff != "" {
		t.Errorf("after a good answer (-want +got):\n%s", diff)
	}

	x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing})
	x.clock.pass(failCooldown)
	x.admit("a", embeddings, Normal)
}

func TestCapacityGroup(t *testing.T) {
	group := []table.Backend{server("a", grouped), server("b", grouped), server("c")}
	runScenarios(t, map[string]scenario{
		"saturation of one opens all of the group": {
			backends: group, do: func(x *rig) { x.silent("b", 2) }, want: openView(ReasonGroupSaturated, satCooldown)},
		"failure does not": {
			backends: group, do: func(x *rig) { x.failed("b", 5) }, want: closedView},
		"a backend outside of the group does not": {
			backends: group, do: func(x *rig) { x.silent("c", 2) }, want: closedView},
		"the cause's success closes all": {
			backends: group, do: func(x *rig) {
				x.silent("b", 2)
				x.clock.pass(satCooldown)
				if in, _ := x.probeDue("a"); in <= 0 {
					x.t.Error("a is to be probed although b caused the opening")
				}
				x.probe("b", Result{Kind: Success})
			}, want: closedView},
		"the cause's failed probe re-opens all": {
			backends: group, do: func(x *rig) {
				x.silent("b", 2)
				x.clock.pass(satCooldown)
				x.probe("b", Result{Kind: Silent})
			}, want: openView(ReasonGroupSaturated, satCooldown)},
		"a member's own failures outlast the group's recovery": {
			backends: group, do: func(x *rig) {
				x.silent("b", 2)
				x.clock.pass(satCooldown)
				x.admit("a", chat, LastResort).Done(Result{Kind: Misconfigured})
				x.clock.pass(satCooldown)
				x.probe("b", Result{Kind: Success})
			}, want: View{State: Open, Reason: ReasonMisconfigured}},
		"one probe at a time in the group": {
			backends: group, do: func(x *rig) {
				x.silent("b", 2)
				x.admit("b", chat, LastResort)
				if _, ok := x.r.Admit("a", chat, LastResort); ok {
					x.t.Error("two probes on the same hardware")
				}
			}, want: openView(ReasonGroupSaturated, satCooldown)},
		"a good answer clears only its own backend's count": {
			backends: group, do: func(x *rig) {
				x.silent("a", 1)
				x.ends("b", 1, Result{Kind: Success})
				x.silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
		"without its cause a member is probed itself": {
			backends: group, do: func(x *rig) {
				x.silent("b", 2)
				x.apply(server("a", grouped))
				x.clock.pass(satCooldown)
				x.probe("a", Result{Kind: Success})
			}, want: closedView},
	})
}

func TestReload(t *testing.T) {
	open := func(x *rig) { x.failed("a", 5); x.clock.pass(5 * time.Second) }
	left := openView(ReasonFailing, 25*time.Second)
	runScenarios(t, map[string]scenario{
		"an unrelated new backend keeps the state (D5 i)": {
			do: func(x *rig) { open(x); x.apply(server("a"), server("z")) }, want: left},
		"a reordered chain keeps it (D5 ii)": {
			do: func(x *rig) { open(x); x.apply(server("z"), server("a")) }, want: left},
		"changed limits keep it (D5 iii)": {
			do: func(x *rig) {
				open(x)
				x.apply(server("a", func(b *table.Backend) { b.Saturation.SlowAfter = time.Second }))
			}, want: left},
		"a new identity is a new backend (D5 iv)": {
			backends: []table.Backend{server("old")},
			do:       func(x *rig) { x.failed("old", 5); x.apply(server("a")) }, want: closedView},
		"deleted and recreated is fresh (D5 v)": {
			do: func(x *rig) { open(x); x.apply(); x.apply(server("a")) }, want: closedView},
		"counts are kept, and the new threshold holds": {
			do: func(x *rig) {
				x.failed("a", 2)
				x.apply(server("a", func(b *table.Backend) { b.Failure.Threshold = 3 }))
				x.failed("a", 1)
			}, want: openView(ReasonFailing, failCooldown)},
		"a probe that is out keeps its place": {
			backends: []table.Backend{server("a", byRequest)},
			do: func(x *rig) {
				open(x)
				x.clock.pass(failCooldown)
				x.admit("a", chat, Normal)
				x.apply(server("a", byRequest), server("z"))
			}, want: View{State: HalfOpen, Reason: ReasonFailing}},
		"results of a request that outlives its backend count nowhere": {
			do: func(x *rig) {
				p := x.admit("a", chat, Normal)
				x.apply()
				x.apply(server("a", func(b *table.Backend) { b.Saturation.Threshold = 1 }))
				p.Done(Result{Kind: Silent})
			}, want: closedView},
		"where routes differ the smallest threshold holds": {
			do: func(x *rig) {
				x.apply(server("a"), server("a", func(b *table.Backend) { b.Name, b.Saturation.Threshold = "other", 1 }))
				x.silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
	})
}

func TestOpenedWakesThoseWhoQueue(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	waiting, another := x.r.Opened("a", chat, Normal), x.r.Opened("a", chat, Normal)
	if isClosed(waiting) {
		t.Fatal("told to leave a closed breaker")
	}
	x.silent("a", 2)
	if !isClosed(waiting) || !isClosed(another) || !isClosed(x.r.Opened("a", chat, Normal)) {
		t.Error("nobody was told that the breaker opened")
	}
	x.clock.pass(satCooldown)
	if isClosed(x.r.Opened("a", chat, Normal)) {
		t.Error("the caller that is wanted as the probe was told to leave")
	}
	if x.r.Opened("unknown", chat, Normal) != nil {
		t.Error("an id that no table names opens")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTransitionsAndChangesAreTold(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.silent("a", 1)
	if x.urgent != 1 {
		t.Errorf("a count that leaves zero was told %d times as urgent", x.urgent)
	}
	x.silent("a", 1)
	x.clock.pass(satCooldown)
	x.probe("a", Result{})
	x.probe("a", Result{Kind: Success})
	at := epoch0.Add(satCooldown)
	want := []Transition{
		{From: Closed, To: Open, Reason: ReasonSaturated, Message: "no first token within 30s", RetryAt: at},
		{From: Open, To: HalfOpen, Reason: ReasonSaturated, Message: "no first token within 30s", RetryAt: at},
		{From: HalfOpen, To: Open, Reason: ReasonSaturated, Message: "no first token within 30s", RetryAt: at},
		{From: Open, To: HalfOpen, Reason: ReasonSaturated, Message: "no first token within 30s", RetryAt: at},
		{From: HalfOpen, To: Closed, Reason: ReasonSaturated},
	}
	for i := range want {
		want[i].ID, want[i].Namespace, want[i].Names = "a", "ns", []string{"a"}
	}
	if diff := cmp.Diff(want, x.transitions); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

// A callback may ask the registry, and hears of what it caused itself after what came before.
func TestCallbacksMayCallBack(t *testing.T) {
	x := newRig(t, "pod", server("a"), server("b"))
	var order []table.BackendID
	x.r.OnTransition(func(tr Transition) {
		if tr.ID == "a" {
			x.silent("b", 2)
		}
		x.r.Records()
	})
	x.r.OnTransition(func(tr Transition) { order = append(order, tr.ID) })
	x.silent("a", 2)
	if diff := cmp.Diff([]table.BackendID{"a", "b"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
