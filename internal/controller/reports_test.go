package controller

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/status"
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
	type testCase struct {
		events func(r *reports, clock *clocktesting.FakeClock)
		want   state
	}
	cases := map[string]testCase{
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
		"one that somebody else annotates": {func(r *reports, c *clocktesting.FakeClock) {
			written := metav1.NewMicroTime(c.Now())
			for _, version := range []string{"1", "2", "3"} {
				touched := report(version)
				touched.Status.RenewTime = written
				r.set(key, touched)
				c.Step(20 * time.Second)
			}
		}, state{0, 0, 45 * time.Second}},
		"one unseen for long is to be deleted": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(10 * time.Minute)
		}, state{0, 1, 45 * time.Second}},
		"a deleted one": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.set(key, nil)
		}, state{0, 0, 45 * time.Second}},
		"one that does not decode is a proxy all the same": {func(r *reports, c *clocktesting.FakeClock) {
			odd := report("1")
			odd.fault = "status is odd"
			r.set(key, odd)
		}, state{1, 0, 45 * time.Second}},
	}
	outage := func(r *reports, c *clocktesting.FakeClock, took, after time.Duration) {
		r.heard(false)
		for range took / time.Second {
			c.Step(time.Second)
			r.fold()
		}
		r.heard(true)
		c.Step(after)
	}
	maps.Copy(cases, map[string]testCase{
		"one while the API server is away for long": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.fold()
			r.heard(false)
			c.Step(20 * time.Minute)
		}, state{1, 0, time.Second}},
		"one after the API server was away for long": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.fold()
			outage(r, c, 20*time.Minute, 10*time.Second)
		}, state{1, 0, 35 * time.Second}},
		"one that does not come back with the API server": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.fold()
			outage(r, c, time.Minute, 45*time.Second)
		}, state{0, 0, 45 * time.Second}},
		"one that was gone before the API server was": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			c.Step(45 * time.Second)
			r.fold()
			outage(r, c, time.Minute, 0)
		}, state{0, 0, 45 * time.Second}},
		"one renewed after an outage": {func(r *reports, c *clocktesting.FakeClock) {
			r.set(key, report("1"))
			r.fold()
			outage(r, c, time.Minute, 30*time.Second)
			r.set(key, report("2"))
		}, state{1, 0, 45 * time.Second}},
	})
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

// Who was frozen finds all reports as old as they were, although their proxies have renewed them.
func TestOurOwnSleepIsNotTheEndOfTheProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := clocktesting.NewFakeClock(time.Unix(0, 0))
		r := newReports(clock, DefaultReportTimeout)
		report := &storedReport{}
		report.Status.Schema, report.Status.RenewTime = v1alpha1.ReportSchema, metav1.NewMicroTime(clock.Now())
		r.set(types.NamespacedName{Namespace: "system", Name: "proxy-1"}, report)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = r.Start(ctx) }()
		live := func(passes time.Duration) int {
			time.Sleep(foldAfter)
			clock.Step(passes)
			synctest.Wait()
			return r.fleet.Load().Live()
		}
		if live(time.Hour) != 1 {
			t.Error("a proxy is gone because we were frozen")
		}
		for range DefaultReportTimeout/foldEvery - 1 {
			if live(foldEvery) != 1 {
				t.Fatal("after that it has not its whole time")
			}
		}
		if live(foldEvery) != 0 {
			t.Error("it is live for ever")
		}
	})
}

func TestReportsThatWereThereBeforeUsAreLiveByEachOther(t *testing.T) {
	start := time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		ages map[string]time.Duration // of the report, when we start
		then []string                 // who renews after that
		want int
	}{
		"all were renewed in turn":                    {map[string]time.Duration{"a": 0, "b": 15 * time.Second, "c": 44 * time.Second}, nil, 3},
		"one was killed before":                       {map[string]time.Duration{"a": 0, "b": 15 * time.Second, "c": 45 * time.Second}, nil, 2},
		"all are old, as far as clocks may lie apart": {map[string]time.Duration{"a": 5 * time.Minute, "b": 5*time.Minute + 44*time.Second}, nil, 2},
		"the whole fleet was killed before":           {map[string]time.Duration{"a": time.Hour, "b": time.Hour + 14*time.Second}, nil, 0},
		"all could not write for long":                {map[string]time.Duration{"a": time.Hour, "b": time.Hour}, []string{"a", "b"}, 2},
		"a clock is ahead of ours":                    {map[string]time.Duration{"a": -5 * time.Minute, "b": -5*time.Minute - 14*time.Second}, nil, 2},
		"one that seemed dead renews itself":          {map[string]time.Duration{"a": 0, "b": 5 * time.Minute}, []string{"b"}, 2},
		"one clock is ahead of all others":            {map[string]time.Duration{"a": 0, "b": 14 * time.Second, "ahead": -5 * time.Minute}, nil, 3},
		"and of one that was killed":                  {map[string]time.Duration{"a": 0, "dead": time.Minute, "ahead": -5 * time.Minute}, nil, 2},
		"one clock is behind all others":              {map[string]time.Duration{"a": 0, "b": 14 * time.Second, "behind": 5 * time.Minute}, []string{"behind"}, 3},
		"our own clock is ahead of all":               {map[string]time.Duration{"a": 5 * time.Minute, "b": 5*time.Minute + 14*time.Second, "dead": 6 * time.Minute}, nil, 2},
		"our own clock is behind all":                 {map[string]time.Duration{"a": -5 * time.Minute, "b": -5*time.Minute + 14*time.Second, "dead": -4 * time.Minute}, nil, 2},
		"one has never told when":                     {map[string]time.Duration{"a": 0, "b": time.Since(time.Time{})}, nil, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newReports(clocktesting.NewFakeClock(start), DefaultReportTimeout)
			put := func(pod, version string, age time.Duration) {
				report := &storedReport{}
				report.Name, report.ResourceVersion = pod, version
				report.Status = v1alpha1.ProxyReportStatus{Schema: v1alpha1.ReportSchema, RenewTime: metav1.NewMicroTime(start.Add(-age))}
				r.set(types.NamespacedName{Namespace: "system", Name: pod}, report)
			}
			for pod, age := range tc.ages {
				put(pod, "1", age)
			}
			r.judgeAge()
			for _, pod := range tc.then {
				put(pod, "2", tc.ages[pod]-time.Second)
			}
			r.fold()
			if got := r.fleet.Load().Live(); got != tc.want {
				t.Errorf("%d proxies live, want %d", got, tc.want)
			}
		})
	}
}

func TestReportsTellTheTimeByOurClock(t *testing.T) {
	start := time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)
	for name, ahead := range map[string]time.Duration{"a proxy that is ahead": 5 * time.Minute, "one that is behind": -5 * time.Minute, "one that agrees": time.Second} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			r := newReports(clock, DefaultReportTimeout)
			put := func(version, remaining string) {
				report := &storedReport{}
				report.Name, report.ResourceVersion = "proxy-1", version
				since := metav1.NewMicroTime(start.Add(ahead - time.Minute))
				report.Status = v1alpha1.ProxyReportStatus{
					Schema: v1alpha1.ReportSchema, RenewTime: metav1.NewMicroTime(clock.Now().Add(ahead)),
					Breakers: []v1alpha1.BreakerReport{{ID: "b", State: v1alpha1.BackendOpen, Reason: v1alpha1.BackendSaturated, Epoch: 1, Since: &since, Remaining: v1alpha1.Duration(remaining)}},
				}
				r.set(types.NamespacedName{Namespace: "system", Name: "proxy-1"}, report)
			}
			put("1", "10m")
			r.fold()
			told := r.fleet.Load()
			e := told.Evidence("b")
			if off := e.RetryAt.Sub(start.Add(10 * time.Minute)).Abs(); off > status.ReportTolerance {
				t.Errorf("the time of retry is %s off", off)
			}
			if off := e.Since.Sub(start.Add(-time.Minute)).Abs(); off > status.ReportTolerance {
				t.Errorf("the time of opening is %s off", off)
			}
			for _, remaining := range []string{"9m45s", "9m30s", "9m15s", "9m"} {
				clock.Step(15 * time.Second)
				put(remaining, remaining)
			}
			if r.fold(); r.fleet.Load().Live() != 1 {
				t.Error("a proxy that renews its report is not live")
			}
			if diff := cmp.Diff(status.Change{}, r.fleet.Load().ChangeFrom(told)); diff != "" {
				t.Errorf("renewals change something (-want +got):\n%s", diff)
			}
		})
	}
}
