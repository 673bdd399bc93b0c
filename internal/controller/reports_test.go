package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func TestReportsAreLiveByOurOwnClock(t *testing.T) {
	key := types.NamespacedName{Namespace: "system", Name: "proxy-1"}
	report := func(version string) *storedReport {
		r := &storedReport{}
		r.Name, r.ResourceVersion = key.Name, version
		r.Status.Schema = v1alpha1.ReportSchema
		return r
	}
	type state struct {
		Live, Old int
		Next      time.Duration
	}
	cases := map[string]struct {
		events func(r *reports, clock *clocktesting.FakeClock)
		want   state
	}{
		"a report just seen": {func(r *reports, c *clocktesting.FakeClock) { r.set(key, report("1")) }, state{1, 0, 45 * time.Second}},
		"one that times out soon": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(40 * time.Second)
		}, state{1, 0, 5 * time.Second}},
		"one that has timed out": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(45 * time.Second)
		}, state{0, 0, 45 * time.Second}},
		"a renewal": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(40 * time.Second)
			r.set(key, report("2"))
		}, state{1, 0, 45 * time.Second}},
		"the informer repeats itself": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(40 * time.Second)
			r.set(key, report("1"))
		}, state{1, 0, 5 * time.Second}},
		"one unseen for long is to be deleted": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(10 * time.Minute)
		}, state{0, 1, 45 * time.Second}},
		"a deleted one": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.set(key, nil)
		}, state{0, 0, 45 * time.Second}},
		"one that does not decode": {func(r *reports, c *clocktesting.FakeClock) {
			odd := report("1")
			odd.fault = "status is odd"
			r.set(key, odd)
		}, state{0, 0, 45 * time.Second}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			r := newReports(clock, DefaultReportTimeout)
			tc.events(r, clock)
			next := r.fold()
			got := state{Live: r.fleet.Load().Live(), Old: len(r.unseenFor(DefaultReportRetention)), Next: next}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}
