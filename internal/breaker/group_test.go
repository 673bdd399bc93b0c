package breaker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// What is the group's, and what each member's own.
func TestMembersOfAGroup(t *testing.T) {
	pair := []table.Backend{server("a", grouped), server("b", grouped)}
	runScenarios(t, map[string]scenario{
		"the success of one that caused nothing closes only itself": {
			backends: pair, do: func(x *rig) {
				x.silent("a", 2)
				x.admit("b", chat, LastResort).Done(Result{Kind: Success})
				if got := x.view("b").State; got != Closed {
					x.t.Errorf("b is %s", got)
				}
			}, want: openView(ReasonSaturated, satCooldown)},
		"a late answer that makes it much longer does so for all": {
			backends: pair, do: func(x *rig) {
				late := x.admit("b", chat, Normal)
				x.ends("b", 1, Result{Kind: Refused, RetryAfter: time.Second})
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
			}, want: openView(ReasonGroupSaturated, time.Hour)},
		"and so does one that came while a probe was out that tells nothing": {
			backends: pair, do: func(x *rig) {
				late := x.admit("b", chat, Normal)
				x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Second})
				trial := x.admit("a", chat, LastResort)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				trial.Done(Result{})
			}, want: openView(ReasonRefused, time.Hour)},
		"or that tells of a failure": {
			backends: pair, do: func(x *rig) {
				late := x.admit("b", chat, Normal)
				x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Second})
				trial := x.admit("a", chat, LastResort)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				trial.Done(Result{Kind: Failed})
			}, want: openView(ReasonRefused, time.Hour)},
		"one that has closed by itself is not opened by what the cause was told before": {
			backends: pair, do: func(x *rig) {
				late := x.admit("b", chat, Normal)
				x.ends("b", 1, Result{Kind: Refused, RetryAfter: time.Second})
				trial := x.admit("a", chat, LastResort)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				trial.Token()
			}, want: closedView},
		"nor by what it is told after": {
			backends: pair, do: func(x *rig) {
				late := x.admit("b", chat, Normal)
				x.ends("b", 1, Result{Kind: Refused, RetryAfter: time.Second})
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
			}, want: closedView},
		"one that comes into a saturated group is saturated, too": {
			backends: []table.Backend{server("b", grouped)}, do: func(x *rig) {
				x.silent("b", 2)
				x.clock.pass(time.Minute)
				x.apply(server("a", grouped), server("b", grouped))
			}, want: openView(ReasonGroupSaturated, satCooldown-time.Minute)},
		"and so it is when both are put into one": {
			backends: []table.Backend{server("a"), server("b")}, do: func(x *rig) {
				x.silent("b", 2)
				x.apply(server("a", grouped), server("b", grouped))
			}, want: openView(ReasonGroupSaturated, satCooldown)},
		"one that comes saturated saturates the group": {
			backends: []table.Backend{server("a", grouped), server("b"), server("c", grouped)}, do: func(x *rig) {
				x.silent("b", 2)
				x.apply(server("a", grouped), server("b", grouped), server("c", grouped))
			}, want: openView(ReasonGroupSaturated, satCooldown)},
		"one that fails does not": {
			backends: []table.Backend{server("a", grouped), server("b")}, do: func(x *rig) {
				x.failed("b", 5)
				x.apply(server("a", grouped), server("b", grouped))
			}, want: closedView},
		"an edit does not take back what closed by itself in a saturated group": {
			backends: pair, do: func(x *rig) {
				x.silent("b", 2)
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.apply(server("a", grouped, oneSlot), server("b", grouped, oneSlot))
			}, want: closedView},
		"what a report opens for all is newer than what else it says": {
			backends: pair, do: func(x *rig) {
				x.silent("a", 1)
				x.r.Adopt("other", []Record{{ID: "a", State: Closed, Saturations: 1}, {ID: "b", State: Closed, Epoch: 9}})
				if got := x.record("b"); got.State != Open || got.Epoch != 10 {
					x.t.Errorf("b is %+v", got)
				}
			}, want: openView(ReasonSaturated, satCooldown)},
		"refusals start over when the group closes": {
			backends: pair, do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.clock.pass(failCooldown)
				x.probe("a", Result{Kind: Refused})
				x.admit("b", chat, LastResort).Done(Result{Kind: Silent})
				x.clock.pass(satCooldown)
				x.probe("b", Result{Kind: Success})
				if got := x.view("a").State; got != Closed {
					x.t.Fatalf("a is %s", got)
				}
				x.ends("a", 1, Result{Kind: Refused})
			}, want: openView(ReasonRefused, failCooldown)},
		"its own silence is evidence of its own": {
			backends: pair, do: func(x *rig) {
				x.silent("b", 2)
				x.admit("a", chat, LastResort).Done(Result{Kind: Silent})
			}, want: openView(ReasonSaturated, satCooldown)},
		"which another's does not cover up": {
			backends: pair, do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused, Message: "said 429"})
				x.clock.pass(time.Second)
				x.admit("b", chat, LastResort).Done(Result{Kind: Silent})
				x.admit("b", chat, LastResort).Done(Result{Kind: Silent})
				if got := x.view("a").Message; got != "said 429" {
					x.t.Errorf("message %q", got)
				}
			}, want: openView(ReasonRefused, satCooldown)},
		"what adds nothing is no news": {
			backends: pair, do: func(x *rig) {
				x.ends("b", 1, Result{Kind: Refused, RetryAfter: time.Hour})
				epoch := x.record("a").Epoch
				x.admit("b", chat, LastResort).Done(Result{Kind: Refused, RetryAfter: time.Second})
				if got := x.record("a").Epoch; got != epoch {
					x.t.Errorf("epoch %d, was %d", got, epoch)
				}
			}, want: openView(ReasonGroupSaturated, time.Hour)},
		"nor what is over before a member's own is": {
			backends: pair, do: func(x *rig) {
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonRefused, Epoch: 1, Remaining: time.Hour}})
				x.ends("b", 1, Result{Kind: Refused, RetryAfter: time.Second})
				if got := x.record("a").Epoch; got != 1 {
					x.t.Errorf("epoch %d, was 1", got)
				}
			}, want: openView(ReasonRefused, time.Hour)},
		"a member's count outlasts the recovery of another": {
			backends: pair, do: func(x *rig) {
				x.silent("a", 1)
				x.silent("b", 2)
				x.clock.pass(satCooldown)
				x.probe("b", Result{Kind: Success})
				x.silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
		"a failing member's probe says nothing of the others": {
			backends: pair, do: func(x *rig) {
				x.failed("b", 5)
				x.clock.pass(failCooldown)
				x.probe("b", Result{Kind: Failed})
			}, want: closedView},
		"what a member that caused nothing meets is its own": {
			backends: pair, do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused, RetryAfter: time.Hour})
				x.clock.pass(time.Minute)
				x.admit("b", chat, LastResort).Done(Result{Kind: Failed})
			}, want: openView(ReasonRefused, 59*time.Minute)},
		"one that callers probe waits for the cause": {
			backends: []table.Backend{server("a", grouped, byRequest), server("b", grouped)},
			do:       func(x *rig) { x.silent("b", 2); x.clock.pass(satCooldown) },
			want:     View{State: Open, Reason: ReasonGroupSaturated}},
		"a probe that never ends holds up the group for its lease": {
			backends: []table.Backend{server("a", grouped), server("b", grouped, byRequest)},
			do: func(x *rig) {
				x.silent("b", 2)
				x.clock.pass(satCooldown)
				x.admit("b", chat, Normal)
				x.clock.pass(time.Hour)
				x.admit("a", chat, LastResort)
			}, want: View{State: HalfOpen, Reason: ReasonGroupSaturated}},
		"where routes differ the smallest cooldown holds": {
			do: func(x *rig) {
				x.apply(server("a"), server("a", func(b *table.Backend) { b.Name, b.Saturation.Cooldown = "other", time.Minute }))
				x.silent("a", 2)
			}, want: openView(ReasonSaturated, time.Minute)},
	})
}

// A cause that waits for callers of its own may have none: the others wait for it for one more cooldown.
func TestTheGroupDoesNotWaitForEver(t *testing.T) {
	x := newRig(t, "pod", server("a", grouped), server("b", grouped, byRequest))
	x.silent("b", 2)
	x.clock.pass(2*satCooldown - 1)
	if in, ok := x.probeDue("a"); ok && in <= 0 {
		t.Error("a is to be probed while callers may still find out about b")
	}
	x.clock.pass(1)
	x.probe("a", Result{Kind: Success})
}

// Two backends of one group are due at the same time, each by its own evidence. The hardware is asked once.
func TestRunProbesAGroupOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{start: time.Now(), r: New(Options{Jitter: noJitter})}
		b.answers(Result{}) // silence
		b.r.Apply(routeOf(nil, server("a", grouped), server("b", grouped)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.r.Run(ctx, b)
		}()
		defer func() { cancel(); <-ended }()
		b.end("a", chat, 2, Result{Kind: Silent})
		p, _ := b.r.Admit("b", chat, LastResort)
		p.Done(Result{Kind: Silent})
		pass(satCooldown + minProbeBound + time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.asked) != 1 {
			t.Errorf("asked %+v, want one", b.asked)
		}
	})
}

// What closes a group is news of each member that it closes, and of no other; a member that is well already is no cause.
func TestTheNewsOfAGroup(t *testing.T) {
	x := newRig(t, "pod", server("a", grouped), server("b", grouped), server("c", grouped))
	x.silent("c", 2)
	x.admit("a", chat, LastResort).Done(Result{Kind: Success})
	x.clock.pass(2*satCooldown - 1)
	if in, _ := x.probeDue("b"); in <= 0 {
		t.Error("b does not wait for c, which caused the opening and is ours to probe")
	}
	before := map[string]uint64{"a": x.record("a").Epoch, "b": x.record("b").Epoch}
	x.transitions = nil
	x.probe("c", Result{Kind: Success})
	told := map[table.BackendID]State{}
	for _, tr := range x.transitions {
		told[tr.ID] = tr.To
	}
	if got := x.record("b"); got.State != Closed || got.Epoch != before["b"]+1 || told["b"] != Closed {
		t.Errorf("b was closed with its group: %+v, told %v", got, told)
	}
	if got := x.record("a").Epoch; got > before["a"] || told["a"] != "" {
		t.Errorf("a was closed before: epoch %d, was %d, told %v", got, before["a"], told)
	}
}

// A member that fails besides stays open when its group closes, and that is told.
func TestAMembersOwnTroubleIsTold(t *testing.T) {
	x := newRig(t, "pod", server("a", grouped), server("b", grouped))
	x.silent("b", 2)
	x.admit("a", chat, LastResort).Done(Result{Kind: Misconfigured})
	x.clock.pass(satCooldown)
	before := x.record("a").Epoch
	x.probe("b", Result{Kind: Success})
	if got := x.record("a"); got.State != Open || got.Reason != ReasonMisconfigured || got.Epoch != before+1 {
		t.Errorf("%+v, was at epoch %d", got, before)
	}
}

// A cause that cannot be asked, or whose trouble is another one by now, holds up the others for one more cooldown and no longer.
func TestAGroupDoesNotShareTheFateOfItsCause(t *testing.T) {
	cases := map[string]func(x *rig){
		"a pin rests it": func(x *rig) {
			pin := table.Pin{Name: "p", Backend: "hosted", Mode: table.PinPrefer, StartsAt: epoch0, ExpiresAt: epoch0.Add(99 * time.Hour)}
			x.r.Apply(table.New([]*table.Route{
				{Namespace: "ns", Name: "r", Model: "r", Chain: []table.Backend{server("a", grouped), server("hosted")}, Pins: []table.Pin{pin}},
				{Namespace: "ns", Name: "s", Model: "s", Chain: []table.Backend{server("b", grouped)}},
			}))
			x.clock.pass(satCooldown)
		},
		"it is down": func(x *rig) {
			x.probe("a", Result{Kind: Failed})
			x.clock.pass(satCooldown)
			x.probe("a", Result{Kind: Failed})
		},
		"its key is refused": func(x *rig) {
			x.probe("a", Result{Kind: Misconfigured})
			x.clock.pass(satCooldown)
		},
	}
	for name, happens := range cases {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, "pod", server("a", grouped), server("b", grouped))
			x.silent("a", 2)
			x.clock.pass(satCooldown)
			happens(x)
			x.probe("b", Result{Kind: Success})
			if got := x.view("b").State; got != Closed {
				t.Errorf("b is %s", got)
			}
		})
	}
}
