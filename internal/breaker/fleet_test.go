package breaker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-dev/spillway/internal/table"
)

// fleet is a few proxies with one table and one clock.
type fleet struct {
	t     *testing.T
	clock *testClock
	pods  []*rig
	names []string
}

func newFleet(t *testing.T, n int, backends ...table.Backend) *fleet {
	f := &fleet{t: t, clock: &testClock{mono: time.Hour, wall: epoch0}}
	for i := range n {
		f.names = append(f.names, fmt.Sprintf("pod-%d", i))
	}
	for _, name := range f.names {
		x := newRig(t, name, backends...)
		x.clock = f.clock
		x.r.clock = f.clock
		x.r.SetPeers(f.names)
		f.pods = append(f.pods, x)
	}
	return f
}

// tell has one pod's report read by all others.
func (f *fleet) tell(from int) {
	records := f.pods[from].r.Records()
	for i, x := range f.pods {
		if i != from {
			x.r.Adopt(f.names[from], slices.Clone(records))
		}
	}
}

// settle exchanges reports until nothing can be new any more.
func (f *fleet) settle() {
	for range 4 {
		for i := range f.pods {
			f.tell(i)
		}
	}
}

func TestFleet(t *testing.T) {
	cases := map[string]struct {
		do   func(f *fleet)
		want View // of "a" on the last pod
	}{
		"an opening is adopted with what remains of it": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 2)
				f.clock.pass(time.Minute)
				f.tell(0)
			}, want: openView(ReasonSaturated, satCooldown-time.Minute)},
		"a closing is adopted": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 2)
				f.tell(0)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Success})
				f.tell(0)
			}, want: closedView},
		"two slow turns of the fleet open it, not two of each": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 1)
				f.tell(0)
				f.pods[1].silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
		"two at the same time, too": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 1)
				f.pods[1].silent("a", 1)
				f.tell(0)
			}, want: openView(ReasonSaturated, satCooldown)},
		"who has seen nothing itself leaves the opening to those who have": {
			do: func(f *fleet) {
				for _, name := range []string{"pod-8", "pod-9"} {
					f.pods[1].r.Adopt(name, []Record{{ID: "a", State: Closed, Saturations: 1}})
				}
				if got := f.pods[1].urgent; got != 0 {
					f.t.Errorf("%d urgent reports of what others know, want none", got)
				}
			}, want: closedView},
		"and takes their counts for its own first one": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-8", []Record{{ID: "a", State: Closed, Saturations: 1}})
				f.pods[1].r.Adopt("pod-9", []Record{{ID: "a", State: Closed, Saturations: 1}})
				f.pods[1].silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
		"a good answer anywhere starts the count over": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 1)
				f.tell(0)
				f.pods[1].ends("a", 1, Result{Kind: Success})
				f.pods[1].silent("a", 1)
			}, want: closedView},
		"and clears the counts of those that hear of it": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 1)
				f.tell(1)
				f.pods[0].ends("a", 1, Result{Kind: Success})
				f.tell(0)
				f.pods[1].silent("a", 1)
			}, want: closedView},
		"a peer that is gone counts no more": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 1)
				f.tell(0)
				f.pods[1].r.Forget("pod-0")
				f.pods[1].silent("a", 1)
			}, want: closedView},
		"but what was adopted from it stays": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 2)
				f.tell(0)
				f.pods[1].r.Forget("pod-0")
			}, want: openView(ReasonSaturated, satCooldown)},
		"what remains is bounded by the cooldown and its jitter": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Remaining: 1e4 * time.Hour}})
			}, want: openView(ReasonSaturated, satCooldown*11/10)},
		"what a failed probe adds by chance is not cut off": {
			do: func(f *fleet) {
				f.pods[0].r.jitter = func(d time.Duration) time.Duration { return d / 10 }
				f.pods[0].silent("a", 2)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Silent})
				f.tell(0)
			}, want: openView(ReasonSaturated, satCooldown*11/10)},
		"a late answer that makes it much longer travels": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Second})
				f.tell(0)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				f.tell(0)
			}, want: openView(ReasonRefused, time.Hour)},
		"one that makes no difference is not told": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				late.Done(Result{Kind: Refused, RetryAfter: time.Minute + leastExtension - 1})
				f.tell(0)
				if got := f.pods[1].record("a").Extensions; got != 0 {
					f.t.Errorf("%d extensions", got)
				}
			}, want: openView(ReasonRefused, time.Minute+leastExtension-1)},
		"those that make little difference each, and much together, travel": {
			do: func(f *fleet) {
				var late []*Permit
				for range 5 {
					late = append(late, f.pods[0].admit("a", chat, Normal))
				}
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				for i, p := range late {
					p.Done(Result{Kind: Refused, RetryAfter: time.Minute + time.Duration(i+1)*leastExtension/2})
				}
				f.tell(0)
			}, want: openView(ReasonRefused, time.Minute+5*leastExtension/2)},
		"each of many late answers travels": {
			do: func(f *fleet) {
				first, second := f.pods[0].admit("a", chat, Normal), f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				first.Done(Result{Kind: Refused, RetryAfter: 2 * time.Minute})
				f.settle()
				second.Done(Result{Kind: Refused, RetryAfter: 3 * time.Minute})
				f.settle()
			}, want: openView(ReasonRefused, 3*time.Minute)},
		"and those of several proxies": {
			do: func(f *fleet) {
				first, second := f.pods[0].admit("a", chat, Normal), f.pods[1].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.settle()
				second.Done(Result{Kind: Refused, RetryAfter: 2 * time.Minute})
				f.settle()
				first.Done(Result{Kind: Refused, RetryAfter: 3 * time.Minute})
				f.settle()
			}, want: openView(ReasonRefused, 3*time.Minute)},
		"what remains does not grow by its journeys": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				f.tell(0)
				old := f.pods[0].r.Records()
				f.clock.pass(time.Minute)
				f.pods[1].r.Adopt("pod-0", old)
				f.settle()
			}, want: openView(ReasonRefused, time.Hour-time.Minute)},
		"one that came while a probe was out travels where that ends without news": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				trial := f.pods[0].admit("a", chat, LastResort)
				f.tell(0)
				late.Done(Result{Kind: Refused, RetryAfter: 10 * time.Minute})
				trial.Done(Result{})
				f.tell(0)
			}, want: openView(ReasonRefused, 10*time.Minute)},
		"so it does where the probe was another proxy's": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				trial := f.pods[1].admit("a", chat, LastResort)
				f.tell(1)
				before := f.pods[0].changes
				late.Done(Result{Kind: Refused, RetryAfter: 10 * time.Minute})
				if f.pods[0].changes == before {
					f.t.Error("nobody is told that there is something to report")
				}
				f.tell(0)
				trial.Done(Result{})
			}, want: openView(ReasonRefused, 10*time.Minute)},
		"and where that probe failed, at a proxy that has not heard of it": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				trial := f.pods[1].admit("a", chat, LastResort)
				late.Done(Result{Kind: Refused, RetryAfter: 10 * time.Minute})
				trial.Done(Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(1)
				f.tell(0)
			}, want: openView(ReasonRefused, 10*time.Minute)},
		"but none holds on to what it knows from others": {
			do: func(f *fleet) {
				for i, remaining := range []time.Duration{10 * time.Minute, time.Minute} {
					f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonRefused, Epoch: 1 + uint64(i), Remaining: remaining}})
				}
			}, want: openView(ReasonRefused, time.Minute)},
		"but not where the backend was well in between": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				trial := f.pods[1].admit("a", chat, LastResort)
				f.tell(1)
				late.Done(Result{Kind: Refused, RetryAfter: 10 * time.Minute})
				f.tell(0)
				trial.Done(Result{Kind: Success})
				f.pods[1].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(1)
				f.tell(0)
			}, want: openView(ReasonRefused, time.Minute)},
		"a late refusal is believed for what it asks for, also of a backend that was silent": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].silent("a", 2)
				f.tell(0)
				late.Done(Result{Kind: Refused, RetryAfter: 2 * time.Hour})
				f.tell(0)
			}, want: openView(ReasonRefused, 2*time.Hour)},
		"nor one to a probe, which will know better": {
			do: func(f *fleet) {
				late := f.pods[0].admit("a", chat, Normal)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Second})
				f.tell(0)
				p := f.pods[1].admit("a", chat, LastResort)
				f.tell(1)
				late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
				f.tell(0)
				p.Done(Result{Kind: Success})
			}, want: closedView},
		"refusals double on each failed probe, whoever probes": {
			do: func(f *fleet) {
				f.pods[0].ends("a", 1, Result{Kind: Refused})
				f.tell(0)
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Refused})
				f.tell(1)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Refused})
				f.tell(0)
			}, want: openView(ReasonRefused, 4*failCooldown)},
		"refusals start over with a closing elsewhere": {
			do: func(f *fleet) {
				f.pods[1].ends("a", 1, Result{Kind: Refused})
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Refused})
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Epoch: 9}})
				f.pods[1].ends("a", 1, Result{Kind: Refused})
			}, want: openView(ReasonRefused, failCooldown)},
		"and with an opening for another reason": {
			do: func(f *fleet) {
				f.pods[1].ends("a", 1, Result{Kind: Refused})
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Refused})
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 9, Remaining: time.Second}})
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Refused})
			}, want: openView(ReasonRefused, failCooldown)},
		"and with a closing that a caller brings about after that": {
			do: func(f *fleet) {
				f.pods[1].ends("a", 1, Result{Kind: Refused})
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Refused})
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonFailing, Epoch: 9, Remaining: time.Second}})
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Settled})
				f.pods[1].ends("a", 1, Result{Kind: Refused})
			}, want: openView(ReasonRefused, failCooldown)},
		"a count that has run out does not add up with a peer's new one": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 1)
				f.clock.pass(countTTL + 1)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Saturations: 1}})
			}, want: closedView},
		"a peer's count that goes on is news": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 1)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Failures: 1}})
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Failures: 1, Saturations: 1}})
			}, want: openView(ReasonSaturated, satCooldown)},
		"older news is no news": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Success})
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Remaining: time.Minute}})
			}, want: closedView},
		"at one epoch Open beats Closed": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Epoch: 1}})
			}, want: openView(ReasonSaturated, satCooldown)},
		"at one epoch an opening is adopted by who closed": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Success})
				before := len(f.pods[1].transitions)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 2, Remaining: time.Minute}})
				if got := len(f.pods[1].transitions) - before; got != 1 {
					f.t.Errorf("told of %d transitions, want 1", got)
				}
			}, want: openView(ReasonSaturated, time.Minute)},
		"an opening of the same epoch extends once, however long its news travels": {
			do: func(f *fleet) {
				f.pods[1].ends("a", 1, Result{Kind: Refused})
				rec := Record{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Remaining: 10 * time.Minute}
				f.pods[1].r.Adopt("pod-0", []Record{rec})
				f.clock.pass(time.Minute)
				rec.Failures++ // so that it is not the same news
				f.pods[1].r.Adopt("pod-0", []Record{rec})
			}, want: openView(ReasonSaturated, 9*time.Minute)},
		"what a backend asked for is not cut at the cooldown": {
			do: func(f *fleet) {
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: 3 * time.Hour})
				f.tell(0)
			}, want: openView(ReasonRefused, 3*time.Hour)},
		"nor where its quota is spent, too": {
			do: func(f *fleet) {
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: 3 * time.Hour})
				f.tell(0)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Refused, Quota: true})
				f.tell(0)
			}, want: openView(ReasonQuota, 3*time.Hour)},
		"but at a day": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonRefused, Epoch: 1, Remaining: 1e4 * time.Hour}})
			}, want: openView(ReasonRefused, 24*time.Hour)},
		"who adopted a closing tells it on": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 2)
				f.tell(0)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Success})
				f.tell(0)
				f.clock.pass(satCooldown - 1)
				if got := f.pods[1].record("a"); got.State != Closed || got.Epoch != 2 {
					f.t.Errorf("reports %+v", got)
				}
			}, want: closedView},
		"an opening is news, too, while one's own report still tells of what the others have let go of": {
			do: func(f *fleet) {
				f.pods[0].ends("a", 1, Result{Kind: Misconfigured})
				f.tell(0)
				f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Success})
				f.tell(0)
				f.tell(1)
				f.clock.pass(failCooldown)
				f.tell(1)
				f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
				f.tell(0)
				f.tell(1)
				if got := f.pods[0].view("a"); got.State != Open {
					f.t.Errorf("closed again by old news: %+v", got)
				}
			}, want: openView(ReasonRefused, time.Minute)},
		"and so is a count": {
			do: func(f *fleet) {
				f.pods[0].silent("a", 1)
				f.tell(0)
				f.pods[0].ends("a", 1, Result{Kind: Success})
				f.tell(0)
				f.tell(1)
				f.clock.pass(satCooldown)
				f.tell(1)
				f.pods[0].silent("a", 1)
				f.tell(0)
				f.pods[1].silent("a", 1)
			}, want: openView(ReasonSaturated, satCooldown)},
		"a pair that is passed over is each proxy's own experience": {
			do: func(f *fleet) {
				f.pods[0].admit("a", chat, Normal).Done(Result{Kind: EndpointMissing})
				f.tell(0)
			}, want: closedView},
		"at one epoch the later retryAt holds": {
			do: func(f *fleet) {
				f.pods[1].ends("a", 1, Result{Kind: Refused})
				f.pods[0].silent("a", 2)
				f.tell(0)
			}, want: openView(ReasonSaturated, satCooldown)},
		"nonsense is not believed": {
			do: func(f *fleet) {
				for _, rec := range []Record{
					{ID: "a", State: "Broken", Epoch: 9, Saturations: 9, Failures: 9}, {ID: "a", State: Open, Epoch: 1<<64 - 1},
					{ID: "a", State: Open, Epoch: 1, LastGood: 1<<64 - 1}, {ID: "a", State: Closed, Failures: 9, Saturations: -5},
					{ID: "a", State: Closed, Saturations: 9, Failures: -5}, {ID: "a", State: Closed, Saturations: 1 << 40},
					{ID: "a", State: Closed, Failures: 1 << 40}, {ID: "z", State: Open, Epoch: 1},
				} {
					f.pods[1].r.Adopt("pod-0", []Record{rec})
					f.pods[1].silent("a", 1)
					f.pods[1].failed("a", 1)
					f.pods[1].ends("a", 1, Result{Kind: Success})
				}
			}, want: closedView},
		"five failures of the fleet open it": {
			do: func(f *fleet) {
				f.pods[0].failed("a", 3)
				f.tell(0)
				f.pods[1].failed("a", 2)
			}, want: openView(ReasonFailing, failCooldown)},
		"what is counted of the one kind is not of the other": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Failures: 1, Saturations: 4}})
				f.pods[1].failed("a", 3)
			}, want: closedView},
		"the first events after a good answer are new, as many as there were before it": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Saturations: 1}})
				f.pods[1].ends("a", 1, Result{Kind: Success})
				f.pods[1].silent("a", 1)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Saturations: 1, LastGood: 1}})
			}, want: openView(ReasonSaturated, satCooldown)},
		"further events at peers do not re-open what is open": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.clock.pass(time.Minute)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Saturations: 7}})
			}, want: openView(ReasonSaturated, satCooldown-time.Minute)},
		"an adopted opening extends once, however long its news travels": {
			do: func(f *fleet) {
				rec := Record{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Remaining: 10 * time.Minute}
				f.pods[1].r.Adopt("pod-0", []Record{rec})
				f.clock.pass(time.Minute)
				rec.Failures++ // so that it is not the same news
				f.pods[1].r.Adopt("pod-0", []Record{rec})
			}, want: openView(ReasonSaturated, 9*time.Minute)},
		"an opening of the same epoch that is over sooner leaves one's own reason": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Open, Reason: ReasonFailing, Epoch: 1, Remaining: time.Second}})
			}, want: openView(ReasonSaturated, satCooldown)},
		"that a breaker is closed is no news to one that is": {
			do: func(f *fleet) {
				f.pods[1].r.Adopt("pod-0", []Record{{ID: "a", State: Closed, Epoch: 7}})
				if n := len(f.pods[1].transitions); n != 0 {
					f.t.Errorf("told of %d transitions", n)
				}
			}, want: closedView},
		"a result from before an adopted opening does not close it": {
			do: func(f *fleet) {
				p := f.pods[1].admit("a", chat, Normal)
				f.pods[0].silent("a", 2)
				f.tell(0)
				p.Done(Result{Kind: Success})
			}, want: openView(ReasonSaturated, satCooldown)},
		"a backend that the table names later gets what is known of it": {
			do: func(f *fleet) {
				f.pods[1].apply()
				f.pods[0].silent("a", 2)
				f.tell(0)
				f.clock.pass(time.Minute)
				f.pods[1].apply(server("a"))
			}, want: openView(ReasonSaturated, satCooldown-time.Minute)},
		"a newcomer's first epoch is not old news to those who closed long ago": {
			do: func(f *fleet) {
				f.pods[1].silent("a", 2)
				f.pods[1].admit("a", chat, LastResort).Done(Result{Kind: Success})
				f.clock.pass(satCooldown)
				f.pods[1].r.Records()
				f.pods[0].silent("a", 2)
				f.tell(0)
			}, want: openView(ReasonSaturated, satCooldown)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, server("a"))
			tc.do(f)
			if diff := cmp.Diff(tc.want, f.pods[1].view("a"), cmpopts.IgnoreFields(View{}, "Message")); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestartBringsBackItsOwnReport(t *testing.T) {
	before := newRig(t, "pod", server("a"), server("b"))
	before.silent("a", 2)
	before.silent("b", 1)
	after := newRig(t, "pod", server("a"), server("b"))
	after.r.Adopt("pod", before.r.Records())
	if got := after.view("a").State; got != Open {
		t.Errorf("a is %s, want Open", got)
	}
	after.r.Adopt("pod", after.r.Records()) // its echo adds nothing
	if got := after.record("b").Saturations; got != 1 {
		t.Errorf("b has %d saturations, want 1", got)
	}
	after.silent("b", 1)
	if got := after.view("b").State; got != Open {
		t.Errorf("b is %s after its second silence, want Open", got)
	}
}

func TestRecordsListWhatPeersMustHear(t *testing.T) {
	cases := map[string]struct {
		do   func(x *rig)
		want []Record
	}{
		"nothing of a calm breaker": {do: func(x *rig) { x.ends("a", 3, Result{Kind: Success}) }},
		"a count":                   {do: func(x *rig) { x.failed("a", 1) }, want: []Record{{ID: "a", State: Closed, Failures: 1}}},
		"an opening": {
			do: func(x *rig) { x.silent("a", 2); x.clock.pass(time.Minute) },
			want: []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Since: epoch0, Remaining: satCooldown - time.Minute,
				Epoch: 1, Saturations: 2, Message: "no first token within 30s", Endpoint: chat}}},
		"an opening whose time is over, with nothing that remains": {
			do: func(x *rig) { x.silent("a", 2); x.clock.pass(2 * satCooldown) },
			want: []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Since: epoch0, Epoch: 1, Saturations: 2,
				Message: "no first token within 30s", Endpoint: chat}}},
		"an adopted opening, since when it was made": {
			do: func(x *rig) {
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonFailing, Epoch: 3, Since: epoch0.Add(-time.Hour),
					Remaining: time.Second, Message: "said 500", Endpoint: embeddings}})
			}, want: []Record{{ID: "a", State: Open, Reason: ReasonFailing, Epoch: 3, Since: epoch0.Add(-time.Hour), Remaining: time.Second,
				Message: "said 500", Endpoint: embeddings}}},
		"a count that a good answer cleared, for a cooldown": {
			do:   func(x *rig) { x.failed("a", 1); x.ends("a", 1, Result{Kind: Success}) },
			want: []Record{{ID: "a", State: Closed, LastGood: 1}}},
		"but no longer": {
			do: func(x *rig) { x.failed("a", 1); x.ends("a", 1, Result{Kind: Success}); x.clock.pass(failCooldown) }},
		"a closing, for the last cooldown": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.clock.pass(time.Minute)
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.clock.pass(satCooldown - 1)
			}, want: []Record{{ID: "a", State: Closed, Since: epoch0.Add(time.Minute), Epoch: 2, LastGood: 1}}},
		"a closing of what nothing was counted for": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.clock.pass(satCooldown - 1)
			}, want: []Record{{ID: "a", State: Closed, Since: epoch0, Epoch: 2}}},
		"each good answer that cleared a count": {
			do: func(x *rig) {
				for range 3 {
					x.failed("a", 1)
					x.ends("a", 1, Result{Kind: Success})
				}
			}, want: []Record{{ID: "a", State: Closed, LastGood: 3}}},
		"pairs that are passed over": {
			do: func(x *rig) {
				x.admit("a", embeddings, Normal).Done(Result{Kind: EndpointMissing, Message: "404"})
			},
			want: []Record{{ID: "a", State: Closed, Endpoints: []EndpointRecord{{embeddings, failCooldown, "404"}}}}},
		"what a peer that missed it must still hear": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.clock.pass(satCooldown)
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1, Saturations: 1}})
			}, want: []Record{{ID: "a", State: Closed, Since: epoch0, Epoch: 2, LastGood: 1}}},
		"that it is closed, to a peer that holds it open": {
			do: func(x *rig) {
				x.ends("a", 1, Result{Kind: Refused})
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.clock.pass(satCooldown)
				x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonRefused, Epoch: 1}})
			}, want: []Record{{ID: "a", State: Closed, Since: epoch0, Epoch: 2}}},
		"the good answer, to a peer that still counts": {
			do: func(x *rig) {
				x.failed("a", 1)
				x.ends("a", 1, Result{Kind: Success})
				x.clock.pass(satCooldown)
				x.r.Adopt("other", []Record{{ID: "a", State: Closed, Failures: 1}})
			}, want: []Record{{ID: "a", State: Closed, LastGood: 1}}},
		"nothing to a peer that knows": {
			do: func(x *rig) {
				x.silent("a", 2)
				x.admit("a", chat, LastResort).Done(Result{Kind: Success})
				x.clock.pass(satCooldown)
				x.r.Adopt("other", []Record{{ID: "a", State: Closed, Epoch: 2, LastGood: 1}})
			}},
		"sorted by id": {
			do:   func(x *rig) { x.failed("c", 1); x.failed("a", 1); x.failed("b", 1) },
			want: []Record{{ID: "a", State: Closed, Failures: 1}, {ID: "b", State: Closed, Failures: 1}, {ID: "c", State: Closed, Failures: 1}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, "pod", server("a"), server("b"), server("c"))
			tc.do(x)
			if diff := cmp.Diff(tc.want, x.r.Records()); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOneProxyProbesAndTheNextTakesOver(t *testing.T) {
	f := newFleet(t, 3, server("a"))
	f.pods[0].silent("a", 2)
	f.settle()
	var due []time.Duration
	for _, x := range f.pods {
		in, ok := x.probeDue("a")
		if !ok {
			t.Fatal("a live proxy is not to probe")
		}
		due = append(due, in)
	}
	slices.Sort(due)
	bound := minProbeBound + newsDelay
	if diff := cmp.Diff([]time.Duration{satCooldown, satCooldown + bound, satCooldown + 2*bound}, due); diff != "" {
		t.Errorf("when they probe (-want +got):\n%s", diff)
	}
	f.pods[1].r.SetPeers([]string{"pod-0", "pod-2"})
	if _, ok := f.pods[1].probeDue("a"); ok {
		t.Error("a draining proxy is to probe")
	}
}

// What this pod reported before a restart is void where a peer knows of a good answer since then.
func TestARestartBringsBackNoVoidCounts(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.r.Adopt("other", []Record{{ID: "a", State: Closed, LastGood: 3}})
	x.r.Adopt("pod", []Record{{ID: "a", State: Closed, LastGood: 2, Saturations: 1}})
	x.silent("a", 1)
	if got := x.view("a").State; got != Closed {
		t.Errorf("%s after one silence", got)
	}
}

// What a restarted proxy takes up from its old report has grown by its absence. The others, who knew it, are not to take that for
// news.
func TestARestartMakesNoOpeningLonger(t *testing.T) {
	for name, order := range map[string][]int{"own report first": {0, 1}, "own report last": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 2, server("a"))
			late := f.pods[0].admit("a", chat, Normal)
			f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
			f.settle()
			late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
			f.settle()
			reports := [][]Record{f.pods[0].r.Records(), f.pods[1].r.Records()}
			f.clock.pass(time.Minute)
			restarted := newRig(t, "pod-0", server("a"))
			for _, i := range order {
				restarted.r.Adopt(f.names[i], reports[i])
			}
			f.pods[1].r.Adopt("pod-0", restarted.r.Records())
			if got := f.pods[1].view("a").Remaining; got != time.Hour-time.Minute {
				t.Errorf("%s remain, want %s", got, time.Hour-time.Minute)
			}
		})
	}
}

// The choice of who probes is made for each backend, so that the work is spread.
func TestProbesAreSpreadOverTheFleet(t *testing.T) {
	pods := []string{"pod-0", "pod-1", "pod-2"}
	first := map[string]int{}
	for i := range 60 {
		for _, pod := range pods {
			if rendezvous(fmt.Sprint("backend-", i), pod, pods) == 0 {
				first[pod]++
			}
		}
	}
	if len(first) != 3 || first["pod-0"]+first["pod-1"]+first["pod-2"] != 60 {
		t.Errorf("first are %v, want each of 60 backends to have one, and each pod some", first)
	}
}

// Who knows no dialect that failed guesses one, and leaves it to another proxy when that was wrong.
func TestAWrongGuessLeavesTheProbeToOthers(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 1}})
	x.probe("a", Result{Kind: EndpointMissing})
	if got := x.record("a"); got.Epoch != 1 || got.State != Open {
		t.Errorf("the guess made news: %+v", got)
	}
	if in, ok := x.probeDue("a"); !ok || in != satCooldown {
		t.Errorf("the next guess in %s, %v; want %s", in, ok, satCooldown)
	}

	x.r.Adopt("other", []Record{{ID: "a", State: Open, Reason: ReasonSaturated, Epoch: 2, Endpoint: embeddings}})
	x.probe("a", Result{Kind: EndpointMissing})
	if got := x.record("a").Epoch; got != 3 {
		t.Errorf("a 404 in the dialect that failed did not re-open the breaker: epoch %d", got)
	}
}

// A caller's probe on one proxy keeps the others' callers from being one as well.
func TestCallersProbeOneAtATimeInTheFleet(t *testing.T) {
	f := newFleet(t, 2, server("a", byRequest))
	f.pods[0].silent("a", 2)
	f.settle()
	f.clock.pass(satCooldown)
	p := f.pods[0].admit("a", chat, Normal)
	f.tell(0)
	if f.pods[1].view("a").Usable {
		t.Error("a second probe would be let through")
	}
	p.Done(Result{})
	f.tell(0)
	if !f.pods[1].view("a").Usable {
		t.Error("the place was not given back")
	}
}

// Where requests of the proxies' own are rejected, a caller's finds out, at whichever proxy it comes first.
func TestARejectedProbeLeavesItToTheCallersOfTheFleet(t *testing.T) {
	f := newFleet(t, 3, server("a"))
	f.pods[0].silent("a", 2)
	f.settle()
	f.clock.pass(satCooldown + 2*(minProbeBound+newsDelay))
	f.pods[0].probe("a", Result{Kind: Settled})
	f.tell(0)
	restarted := newRig(t, "pod-2", server("a"))
	restarted.r.Adopt("pod-2", f.pods[2].r.Records())
	if !restarted.view("a").Usable {
		t.Error("a proxy that was restarted does not know that callers are wanted")
	}
	p := f.pods[1].admit("a", chat, Normal)
	f.tell(1)
	for _, i := range []int{0, 2} {
		if _, ok := f.pods[i].r.Admit("a", chat, Normal); ok {
			t.Errorf("%s let a second one through", f.names[i])
		}
	}
	p.Done(Result{Kind: Settled})
	f.tell(1)
	if in, _ := f.pods[0].probeDue("a"); in < satCooldown {
		t.Errorf("another probe of our own in %s", in)
	}
	f.pods[2].admit("a", chat, Normal).Done(Result{Kind: Success})
	f.tell(2)
	for _, x := range f.pods {
		if got := x.view("a").State; got != Closed {
			t.Errorf("%s has it %s", x.r.self, got)
		}
	}
	if rec := f.pods[1].record("a"); rec.AwaitsCaller {
		t.Errorf("reports %+v", rec)
	}
}

// A peer's probe is believed to be out for as long as a lease, and as part of the opening that it belongs to.
func TestAPeersProbeIsNotWaitedForForEver(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown)
	out := Record{ID: "a", State: HalfOpen, Reason: ReasonSaturated, Epoch: 1}
	x.r.Adopt("other", []Record{out})
	lease := x.backend("a").cfg.lease()
	x.clock.pass(lease - 1)
	if x.view("a").Usable {
		t.Error("joined within its lease")
	}
	x.clock.pass(1)
	if !x.view("a").Usable {
		t.Error("still waited for")
	}
	x.admit("a", chat, Normal).Done(Result{Kind: Silent})
	x.clock.pass(satCooldown)
	out.Saturations++
	x.r.Adopt("other", []Record{out}) // it has not heard of the re-opening
	if !x.view("a").Usable {
		t.Error("a probe of an earlier opening is waited for")
	}
}

// Whatever three proxies meet, once they have read each other's reports they agree.
func TestAdoptionConverges(t *testing.T) {
	kinds := []Kind{Neutral, Success, Settled, Silent, Silent, Silent, Refused, Failed, Failed, Failed, Misconfigured}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		brief := func(b *table.Backend) { b.Saturation.Cooldown = time.Minute }
		f := newFleet(t, 3, server("a", grouped, brief), server("b", grouped), server("c", byRequest))
		for range 80 {
			x, id := f.pods[rnd.IntN(3)], table.BackendID([]string{"a", "b", "c"}[rnd.IntN(3)])
			switch rnd.IntN(8) {
			case 0:
				f.tell(rnd.IntN(3))
			case 1:
				f.clock.pass(time.Duration(rnd.IntN(600)) * time.Second)
			default:
				if p, ok := x.r.Admit(id, chat, Mode(rnd.IntN(2))); ok {
					p.Done(Result{Kind: kinds[rnd.IntN(len(kinds))], RetryAfter: time.Duration(rnd.IntN(3)) * time.Hour})
				}
			}
		}
		f.settle()
		for _, id := range []string{"a", "b", "c"} {
			agree(t, seed, id, f)
		}
	}
}

func agree(t *testing.T, seed uint64, id string, f *fleet) {
	t.Helper()
	first, now := f.pods[0].backend(id), f.clock.Monotonic()
	for _, x := range f.pods[1:] {
		b := x.backend(id)
		// Two closed breakers without counts agree whatever came before: who missed what is over has missed nothing.
		same := b.state() == first.state() && (b.epoch == first.epoch || !b.isOpen())
		counted := b.counts != [classes]count{} || first.counts != [classes]count{}
		same = same && (b.lastGood == first.lastGood || !counted)
		near := !b.isOpen() || (max(now, b.retryAt())-max(now, first.retryAt())).Abs() <= time.Second
		if !same || !near || b.open[b.leading()].reason != first.open[first.leading()].reason {
			t.Errorf("seed %d, %s:\n%s: %+v\n%s: %+v", seed, id, f.names[0], f.pods[0].record(id), x.r.self, x.record(id))
		}
	}
}
