package admission

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// manualClock moves when it is told to.
type manualClock struct{ now time.Duration }

func (c *manualClock) Monotonic() time.Duration { return c.now }

func limited(name string, l table.RateLimit) *table.Route {
	return &table.Route{Namespace: "ns", Name: name, Model: "ns/" + name, RateLimit: l}
}

func TestAllowSpendsTheBurstAndRefills(t *testing.T) {
	type step struct {
		pass time.Duration
		want Decision
	}
	ok := func(limit, remaining int, reset time.Duration) Decision {
		return Decision{OK: true, Limited: true, Limit: limit, Remaining: remaining, Reset: reset}
	}
	over := func(limit int, reset, retry time.Duration) Decision {
		return Decision{Limited: true, Limit: limit, Reset: reset, RetryAfter: retry}
	}
	cases := map[string]struct {
		limit table.RateLimit
		live  int
		steps []step
	}{
		"no limit declared, nothing is counted": {
			limit: table.RateLimit{Requests: 0, Per: time.Second, Burst: 1},
			steps: []step{{0, Decision{OK: true}}, {0, Decision{OK: true}}},
		},
		"the default of one a second lets one through and asks for a whole second": {
			limit: table.RateLimit{Requests: 1, Per: time.Second, Burst: 1},
			steps: []step{
				{0, ok(1, 0, time.Second)},
				{0, over(1, time.Second, time.Second)},
				{900 * time.Millisecond, over(1, 100*time.Millisecond, time.Second)},
				{100 * time.Millisecond, ok(1, 0, time.Second)},
			},
		},
		"three live proxies refill at a third and hold the whole burst": {
			limit: table.RateLimit{Requests: 1, Per: time.Second, Burst: 2},
			live:  3,
			steps: []step{
				{0, ok(2, 1, 3*time.Second)},
				{0, ok(2, 0, 6*time.Second)},
				{0, over(2, 6*time.Second, 3*time.Second)},
				{3 * time.Second, ok(2, 0, 6*time.Second)},
			},
		},
		"what has been refilled is not refilled again, however often one asks": {
			limit: table.RateLimit{Requests: 1, Per: time.Second, Burst: 1},
			steps: []step{
				{time.Hour, ok(1, 0, time.Second)},
				{600 * time.Millisecond, over(1, 400*time.Millisecond, time.Second)},
				{0, over(1, 400*time.Millisecond, time.Second)},
				{399 * time.Millisecond, over(1, time.Millisecond, time.Second)},
				{time.Millisecond, ok(1, 0, time.Second)},
			},
		},
		"a clock that goes back takes nothing away and gives nothing": {
			limit: table.RateLimit{Requests: 1, Per: time.Second, Burst: 1},
			steps: []step{
				{time.Hour, ok(1, 0, time.Second)},
				{-time.Minute, over(1, time.Second, time.Second)},
				{time.Minute, over(1, time.Second, time.Second)},
				{time.Second, ok(1, 0, time.Second)},
			},
		},
		"a long rest fills up to the burst and no further": {
			limit: table.RateLimit{Requests: 60, Per: time.Minute, Burst: 2},
			steps: []step{{0, ok(2, 1, time.Second)}, {time.Hour, ok(2, 1, time.Second)}},
		},
		"a bad period and burst still make a limit": {
			limit: table.RateLimit{Requests: 1},
			steps: []step{{0, ok(1, 0, time.Second)}, {0, over(1, time.Second, time.Second)}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := &manualClock{}
			a := New(Options{Clock: clock})
			a.SetLive(tc.live)
			route := limited("r", tc.limit)
			for i, s := range tc.steps {
				clock.now += s.pass
				got := a.Allow(route)
				got.Reset = got.Reset.Round(time.Microsecond)
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

func TestBucketsOutliveReloads(t *testing.T) {
	one := table.RateLimit{Requests: 1, Per: time.Minute, Burst: 1}
	big := table.RateLimit{Requests: 1, Per: time.Minute, Burst: 5}
	off := table.RateLimit{}
	cases := map[string]struct {
		tables []*table.Table
		then   *table.Route
		wantOK bool
	}{
		"an unrelated new route refills nothing": {
			tables: []*table.Table{table.New([]*table.Route{limited("r", one), limited("other", one)})},
			then:   limited("r", one),
		},
		"a larger burst is not a full one": {
			tables: []*table.Table{table.New([]*table.Route{limited("r", big)})},
			then:   limited("r", big),
		},
		"a route that was deleted and recreated starts afresh": {
			tables: []*table.Table{table.New(nil), table.New([]*table.Route{limited("r", one)})},
			then:   limited("r", one),
			wantOK: true,
		},
		"a limit that is turned off holds nobody": {
			tables: []*table.Table{table.New([]*table.Route{limited("r", off)})},
			then:   limited("r", off),
			wantOK: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := New(Options{Clock: &manualClock{}})
			route := limited("r", one)
			a.Apply(table.New([]*table.Route{route}))
			if !a.Allow(route).OK {
				t.Fatal("the first request was refused")
			}
			for _, next := range tc.tables {
				a.Apply(next)
			}
			if got := a.Allow(tc.then).OK; got != tc.wantOK {
				t.Errorf("OK = %v, want %v", got, tc.wantOK)
			}
		})
	}
}

// An edit holds from the next request on, for a bucket that is in use.
func TestEditsOfALimitHoldAtOnce(t *testing.T) {
	clock := &manualClock{}
	a := New(Options{Clock: clock})
	large, small := table.RateLimit{Requests: 1, Per: time.Minute, Burst: 9}, table.RateLimit{Requests: 4, Per: time.Second, Burst: 2}
	route := limited("r", large)
	a.Allow(route)
	edited := limited("r", small)
	a.Apply(table.New([]*table.Route{edited}))
	want := []Decision{
		{OK: true, Limited: true, Limit: 2, Remaining: 1, Reset: 250 * time.Millisecond},
		{OK: true, Limited: true, Limit: 2, Remaining: 0, Reset: 500 * time.Millisecond},
		{Limited: true, Limit: 2, Reset: 500 * time.Millisecond, RetryAfter: time.Second},
	}
	for i, w := range want {
		if diff := cmp.Diff(w, a.Allow(edited)); diff != "" {
			t.Errorf("call %d (-want +got):\n%s", i, diff)
		}
	}
	clock.now += 250 * time.Millisecond
	if !a.Allow(edited).OK {
		t.Error("it refills at the old rate")
	}
}

// A request that began before an edit, and is the first of its route, makes the bucket for those after the edit.
func TestTheFirstRequestMakesABucketOfTheLastTable(t *testing.T) {
	a := New(Options{Clock: &manualClock{}})
	before := limited("r", table.RateLimit{Requests: 1, Per: time.Minute, Burst: 1})
	after := limited("r", table.RateLimit{Requests: 1, Per: time.Minute, Burst: 3})
	a.Apply(table.New([]*table.Route{before}))
	a.Apply(table.New([]*table.Route{after}))
	a.Allow(before)
	if got := a.Allow(after); !got.OK || got.Limit != 3 || got.Remaining != 1 {
		t.Errorf("%+v, want the second of three", got)
	}
}

func TestSetLiveCountsThePastAtTheOldRate(t *testing.T) {
	clock := &manualClock{}
	a := New(Options{Clock: clock})
	route := limited("r", table.RateLimit{Requests: 1, Per: time.Second, Burst: 1})
	a.Allow(route)
	clock.now += time.Second
	a.SetLive(100)
	if !a.Allow(route).OK {
		t.Error("the second that passed before the fleet grew was lost")
	}
	if got := a.Allow(route).RetryAfter; got != 100*time.Second {
		t.Errorf("RetryAfter = %s, want 100s", got)
	}
}

// Whatever the clock and the limits do, tokens stay within the bucket and nobody is told to wait for less than a second.
func TestBucketStaysWithinItsBounds(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		clock := &manualClock{}
		a := New(Options{Clock: clock})
		l := table.RateLimit{Requests: 1 + rnd.IntN(9), Per: time.Second * time.Duration(1+rnd.IntN(60)), Burst: 1 + rnd.IntN(20)}
		granted := 0
		for range 300 {
			clock.now = max(0, clock.now+time.Duration(rnd.IntN(4000)-500)*time.Millisecond)
			d := a.Allow(limited("r", l))
			if d.OK {
				granted++
			}
			if d.Remaining < 0 || d.Remaining > l.Burst || d.Reset < 0 || !d.OK && d.RetryAfter < time.Second {
				t.Fatalf("limit %+v: %+v", l, d)
			}
			if d.RetryAfter%time.Second != 0 {
				t.Fatalf("RetryAfter %s is not whole seconds", d.RetryAfter)
			}
		}
		if granted == 0 {
			t.Fatal("nothing was granted")
		}
	}
}

func BenchmarkAllow(b *testing.B) {
	a := New(Options{})
	route := limited("r", table.RateLimit{Requests: 1000, Per: time.Second, Burst: 1000})
	b.ReportAllocs()
	for b.Loop() {
		a.Allow(route)
	}
}
