package compiler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// A pin ends by the clocks of the proxies, so ours does not take it away from one that is behind.
func TestAPinThatHasEndedStaysForClocksThatAreBehind(t *testing.T) {
	end := goldenNow.Add(3 * time.Hour)
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	s.Pins = []*v1alpha1.BackendPin{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
		Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinOnly, Duration: "4h"},
	}}
	for name, tc := range map[string]struct {
		now  time.Time
		want int
	}{
		"before its end":                   {end.Add(-time.Second), 1},
		"when it ends by our clock":        {end, 1},
		"when it may be on at some proxy":  {end.Add(clockSkew - time.Second), 1},
		"when it has ended by everybody's": {end.Add(clockSkew), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := Compile(s, tc.now)
			if pins := r.Table().ByKey("a/r").Pins; len(pins) != tc.want {
				t.Errorf("pins in the table: %v, want %d", pins, tc.want)
			}
			if v := r.Pins[key("p")]; !v.ExpiresAt.Equal(end) {
				t.Errorf("it ends at %s, want %s", v.ExpiresAt, end)
			}
		})
	}
}

// Deleting a pin ends it, also while something else keeps the object.
func TestADeletedPinHasEnded(t *testing.T) {
	pin := &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
		Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinOnly, Duration: "4h"},
	}
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	s.Pins = []*v1alpha1.BackendPin{pin}
	first := Compile(s, goldenNow)
	if pins := first.Table().ByKey("a/r").Pins; len(pins) != 1 {
		t.Fatalf("pins in force: %v, want one", pins)
	}
	deleted := metav1.NewTime(goldenNow.Add(-time.Second))
	pin.DeletionTimestamp = &deleted
	r := Compile(s, goldenNow)
	if pins := r.Table().ByKey("a/r").Pins; len(pins) != 0 {
		t.Errorf("pins in force: %v, want none", pins)
	}
	if v := r.Pins[key("p")]; !v.Accepted() || !v.ExpiresAt.Equal(deleted.Time) {
		t.Errorf("verdict: %+v, want an end at the deletion", v)
	}
	late := metav1.NewTime(goldenNow.Add(24 * time.Hour))
	pin.DeletionTimestamp = &late
	if v := Compile(s, late.Time).Pins[key("p")]; !v.ExpiresAt.Equal(goldenNow.Add(3 * time.Hour)) {
		t.Errorf("a pin that is deleted when it is over has ended at %s", v.ExpiresAt)
	}
}

// A pin that is not accepted is never in the table, also where its times are good.
func TestARefusedPinDoesNothing(t *testing.T) {
	cases := map[string]func(*v1alpha1.BackendPinSpec){
		"another mode":        func(s *v1alpha1.BackendPinSpec) { s.Mode = "Force" },
		"a reason too long":   func(s *v1alpha1.BackendPinSpec) { s.Reason = strings.Repeat("r", maxPinReason+1) },
		"a route named twice": func(s *v1alpha1.BackendPinSpec) { s.Routes.Names = []string{"r", "r"} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			pin := &v1alpha1.BackendPin{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", CreationTimestamp: metav1.NewTime(goldenNow)},
				Spec:       v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinOnly, Duration: "4h"},
			}
			change(&pin.Spec)
			s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
			s.Pins = []*v1alpha1.BackendPin{pin}
			r := Compile(s, goldenNow)
			if pins := r.Table().ByKey("a/r").Pins; len(pins) != 0 || r.Pins[key("p")].Accepted() {
				t.Errorf("pins in force: %v, accepted %v", pins, r.Pins[key("p")].Accepted())
			}
		})
	}
}

// TestPinsOfARouteAreBounded lets the newest pins have the last word where there are too many.
func TestPinsOfARouteAreBounded(t *testing.T) {
	s := snapshotOf(newRoute("r"), newRoute("s"), newSecret("tower", map[string]string{"token": "one"}))
	for i := range maxPinsPerRoute + 3 {
		pin := &v1alpha1.BackendPin{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("p%02d", i), CreationTimestamp: metav1.NewTime(goldenNow.Add(time.Duration(i) * time.Second))},
			Spec: v1alpha1.BackendPinSpec{
				Routes: v1alpha1.PinRoutes{Selector: &v1alpha1.RouteSelector{}}, Backend: "tower", Mode: v1alpha1.PinPrefer, Duration: "4h"},
		}
		s.Pins = append(s.Pins, pin)
	}
	result := Compile(s, goldenNow.Add(time.Hour))
	for _, entry := range result.Table().Routes() {
		if n := len(entry.Pins); n != maxPinsPerRoute || entry.Pins[0].Name != "p03" || entry.Pins[n-1].Name != "p34" {
			t.Errorf("%s has %d pins, from %s to %s", entry.Key(), n, entry.Pins[0].Name, entry.Pins[n-1].Name)
		}
	}
	for key, v := range result.Pins {
		if !v.Accepted() || !slices.Equal(v.MatchedRoutes, []string{"r", "s"}) {
			t.Errorf("%s: accepted %v, matched %v", key, v.Accepted(), v.MatchedRoutes)
		}
	}
}

// TestOfTooManyPinsThoseCountThatAreOnOrNext is a year of Fridays in one file, behind which the pin of tonight must not vanish.
func TestOfTooManyPinsThoseCountThatAreOnOrNext(t *testing.T) {
	s := snapshotOf(newRoute("r"), newSecret("tower", map[string]string{"token": "one"}))
	pin := func(name string, from, to time.Duration) {
		start, end := metav1.NewTime(goldenNow.Add(from)), metav1.NewTime(goldenNow.Add(to))
		s.Pins = append(s.Pins, &v1alpha1.BackendPin{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(goldenNow.Add(-time.Hour))},
			Spec: v1alpha1.BackendPinSpec{
				Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinPrefer, StartsAt: &start, ExpiresAt: &end},
		})
	}
	pin("a-tonight", -time.Hour, 3*time.Hour)
	const week = 7 * 24 * time.Hour
	for i := range 40 {
		pin(fmt.Sprintf("friday-%02d", i), time.Duration(40-i)*week, time.Duration(40-i)*week+4*time.Hour) // the last comes first
		pin(fmt.Sprintf("over-%02d", i), -2*time.Hour, -time.Minute)                                       // and is still in the table while there is room
	}
	cases := map[string]struct {
		now         time.Time
		first, last string
		next        time.Time
	}{
		"what is on and the next ones":           {goldenNow, "a-tonight", "friday-39", goldenNow.Add(3 * time.Hour)},
		"one more once the first is over":        {goldenNow.Add(3 * time.Hour), "friday-08", "friday-39", goldenNow.Add(week)},
		"and another one when the next has come": {goldenNow.Add(week + 4*time.Hour), "friday-07", "friday-38", goldenNow.Add(2 * week)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := Compile(s, tc.now)
			pins := result.Table().Routes()[0].Pins
			if n := len(pins); n != maxPinsPerRoute || pins[0].Name != tc.first || pins[n-1].Name != tc.last {
				t.Errorf("%d pins, from %s to %s; want %d, from %s to %s", n, pins[0].Name, pins[n-1].Name, maxPinsPerRoute, tc.first, tc.last)
			}
			if !result.Next.Equal(tc.next) {
				t.Errorf("next at %s, want %s", result.Next, tc.next)
			}
		})
	}
	if result := Compile(s, goldenNow.Add(12*week)); !result.Next.IsZero() {
		t.Errorf("next at %s although there is room for all", result.Next)
	}
}

func TestTheNextEdgeIsThatOfAnyPinOfTheNamespace(t *testing.T) {
	s := emptySnapshot().Snapshot
	for name, times := range map[types.NamespacedName][2]time.Duration{
		{Namespace: "a", Name: "one"}:   {-time.Hour, 3 * time.Hour},
		{Namespace: "a", Name: "two"}:   {0, 2 * time.Hour},
		{Namespace: "a", Name: "three"}: {0, 2 * time.Hour},
		{Namespace: "b", Name: "other"}: {time.Minute, time.Hour},
	} {
		pin := &v1alpha1.BackendPin{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		pin.Spec = v1alpha1.BackendPinSpec{Backend: "tower", Mode: v1alpha1.PinPrefer, Routes: v1alpha1.PinRoutes{Names: []string{"r"}},
			StartsAt: &metav1.Time{Time: goldenNow.Add(times[0])}, ExpiresAt: &metav1.Time{Time: goldenNow.Add(times[1])}}
		s.Pins = append(s.Pins, pin)
	}
	r := Compile(s, goldenNow)
	for after, want := range map[time.Duration]time.Duration{-2 * time.Hour: -time.Hour, -time.Minute: 0, 0: 2 * time.Hour, 2 * time.Hour: 3 * time.Hour} {
		if got := r.NextPinEdge("a", goldenNow.Add(after)); !got.Equal(goldenNow.Add(want)) {
			t.Errorf("after %s: next edge at %s, want %s", after, got.Sub(goldenNow), want)
		}
	}
	for _, namespace := range []string{"a", "none"} {
		if got := r.NextPinEdge(namespace, goldenNow.Add(3*time.Hour)); !got.IsZero() {
			t.Errorf("after the last of %s there is one at %s", namespace, got)
		}
	}
}
