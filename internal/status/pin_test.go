package status

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// pinInput is a pin of hosted on the route default, from an hour before now to an hour after it.
func pinInput(change ...func(*PinInput)) PinInput {
	in := PinInput{
		Pin: &v1alpha1.BackendPin{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "game-night", Generation: 2},
			Spec:       v1alpha1.BackendPinSpec{Backend: "hosted", Mode: v1alpha1.PinPrefer, Reason: "game night"},
		},
		Verdict: &compiler.PinVerdict{
			Key: types.NamespacedName{Namespace: key.Namespace, Name: "game-night"}, Generation: 2,
			StartsAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour), MatchedRoutes: []string{"default"},
		},
		Now: now,
	}
	entry := input().Entry
	entry.Pins = []table.Pin{{Name: "game-night", Backend: "hosted", Mode: table.PinPrefer, StartsAt: in.Verdict.StartsAt, ExpiresAt: in.Verdict.ExpiresAt}}
	in.Routes = slices.Values([]*table.Route{entry})
	for _, f := range change {
		f(&in)
	}
	return in
}

func rejected(in *PinInput) {
	in.Verdict.Problems = []compiler.Problem{{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonTooLong, Field: "spec.duration", Message: "A pin lasts at most 168h."}}
}

func moment(at time.Duration) func(*PinInput) { return func(in *PinInput) { in.Now = now.Add(at) } }

func firstOf(routes iter.Seq[*table.Route]) *table.Route {
	for r := range routes {
		return r
	}
	return nil
}

func TestPinAccepted(t *testing.T) {
	if got := pinAccepted(pinInput()); got.reason != v1alpha1.ReasonAccepted || got.status != metav1.ConditionTrue {
		t.Errorf("a good pin is %v", got)
	}
	want := finding{metav1.ConditionFalse, v1alpha1.ReasonTooLong, "spec.duration: A pin lasts at most 168h."}
	if got := pinAccepted(pinInput(rejected)); got != want {
		t.Errorf("a pin that is too long is %v, want %v", got, want)
	}
}

func TestActive(t *testing.T) {
	overruled := func(in *PinInput) {
		entry := firstOf(in.Routes)
		entry.Pins[0].Mode = table.PinOnly
		entry.Pins = append(entry.Pins, table.Pin{Name: "newer", Backend: "tower", Mode: table.PinOnly, ExpiresAt: now.Add(time.Minute)})
	}
	cases := map[string]struct {
		in        PinInput
		want      string
		wantPhase v1alpha1.PinPhase
	}{
		"it is in force":        {pinInput(), "True/Active", v1alpha1.PinActive},
		"it has not begun":      {pinInput(moment(-time.Hour - time.Second)), "False/Pending", v1alpha1.PinPending},
		"it begins this moment": {pinInput(moment(-time.Hour)), "True/Active", v1alpha1.PinActive},
		"it ends this moment":   {pinInput(moment(time.Hour)), "False/Expired", v1alpha1.PinExpired},
		"it is not accepted":    {pinInput(rejected), "False/NotAccepted", v1alpha1.PinRejected},
		"no route is there": {pinInput(func(in *PinInput) {
			in.Verdict.MatchedRoutes, in.Verdict.UnknownRoutes, in.Routes = nil, []string{"default"}, nil
		}), "False/NoSuchRoute", v1alpha1.PinIneffective},
		"no chain has the backend": {pinInput(func(in *PinInput) { in.Verdict.MissingIn = []string{"default"} }), "False/NoSuchBackend", v1alpha1.PinIneffective},
		"one chain of two has it": {pinInput(func(in *PinInput) {
			in.Verdict.MatchedRoutes, in.Verdict.MissingIn = []string{"default", "other"}, []string{"other"}
		}), "True/Active", v1alpha1.PinActive},
		"its backend is left out of the table":           {pinInput(func(in *PinInput) { entry := firstOf(in.Routes); entry.Chain = entry.Chain[:1] }), "False/NoSuchBackend", v1alpha1.PinIneffective},
		"a newer Only overrules it":                      {pinInput(overruled), "False/Superseded", v1alpha1.PinIneffective},
		"newer pins have left it no room":                {pinInput(func(in *PinInput) { firstOf(in.Routes).Pins[0].Name = "newer" }), "False/Superseded", v1alpha1.PinIneffective},
		"the table with it cannot be written":            {pinInput(func(in *PinInput) { in.Behind, firstOf(in.Routes).Pins = true, nil }), "False/Pending", v1alpha1.PinIneffective},
		"it was in the last table that could be written": {pinInput(func(in *PinInput) { in.Behind = true }), "True/Active", v1alpha1.PinActive},
		"it has no room, and its backend is left out": {pinInput(func(in *PinInput) {
			entry := firstOf(in.Routes)
			entry.Pins[0].Name, entry.Chain = "newer", entry.Chain[:1]
		}),
			"False/NoSuchBackend", v1alpha1.PinIneffective},
		"the newer Only is over": {pinInput(overruled, moment(time.Minute)), "True/Active", v1alpha1.PinActive},
		"a newer Only overrules it on one route of two": {pinInput(func(in *PinInput) {
			entry := firstOf(in.Routes)
			other := *entry
			other.Pins = []table.Pin{entry.Pins[0]}
			overruled(in)
			in.Routes = slices.Values([]*table.Route{entry, &other})
			in.Verdict.MatchedRoutes = []string{"default", "other"}
		}), "True/Active", v1alpha1.PinActive},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := active(tc.in)
			if s := string(got.status) + "/" + string(got.reason); s != tc.want {
				t.Errorf("Active = %s (%s), want %s", s, got.message, tc.want)
			}
			if p := Pin(tc.in).Phase; p != tc.wantPhase {
				t.Errorf("phase = %s, want %s", p, tc.wantPhase)
			}
		})
	}
}

func TestPinStatusTellsAll(t *testing.T) {
	in := pinInput(func(in *PinInput) {
		in.Verdict.MatchedRoutes, in.Verdict.MissingIn, in.Verdict.UnknownRoutes = []string{"default", "other"}, []string{"other"}, []string{"gone", "lost"}
	})
	condition := func(kind v1alpha1.ConditionType, reason v1alpha1.ConditionReason, message string) metav1.Condition {
		return metav1.Condition{Type: string(kind), Status: metav1.ConditionTrue, Reason: string(reason), Message: message, ObservedGeneration: 2, LastTransitionTime: *at(now)}
	}
	want := v1alpha1.BackendPinStatus{
		ObservedGeneration: 2, Phase: v1alpha1.PinActive, StartsAt: at(now.Add(-time.Hour)), ExpiresAt: at(now.Add(time.Hour)),
		MatchedRoutes: 2, Routes: []string{"default"}, RoutesWithoutBackend: []string{"other"}, Scope: "default",
		Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "The pin is valid."),
			condition(v1alpha1.ConditionActive, v1alpha1.ReasonActive, "The pin is in force until 2026-08-13T22:19:00Z. No such route: gone, lost."),
		},
	}
	if diff := cmp.Diff(want, Pin(in)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	always := pinInput(func(in *PinInput) { in.Verdict.StartsAt = time.Time{} }) // as from a file
	if s := Pin(always); s.StartsAt != nil || s.ExpiresAt == nil {
		t.Errorf("a pin that has always been active starts at %v and ends at %v", s.StartsAt, s.ExpiresAt)
	}
}

func TestPinStatusIsBounded(t *testing.T) {
	in := pinInput()
	for i := range 100 {
		in.Verdict.MatchedRoutes = append(in.Verdict.MatchedRoutes, fmt.Sprintf("route-%02d", i))
	}
	in.Verdict.MissingIn = in.Verdict.MatchedRoutes[1:]
	s := Pin(in)
	if s.MatchedRoutes != 101 || len(s.RoutesWithoutBackend) != maxListedRoutes || len(s.Routes) != 1 || s.Scope != "default" {
		t.Errorf("matched %d, listed %d and %d, scope %q", s.MatchedRoutes, len(s.Routes), len(s.RoutesWithoutBackend), s.Scope)
	}
	for want, names := range map[string][]string{"": nil, "a, b, c": {"a", "b", "c"}, "a, b, c, +2": {"a", "b", "c", "d", "e"}} {
		if got := scope(names); got != want {
			t.Errorf("scope of %v = %q, want %q", names, got, want)
		}
	}
}

func TestPinEventsTellItsLife(t *testing.T) {
	cases := map[string]struct {
		before, after PinInput
		want          []string
	}{
		"it begins":  {pinInput(moment(-2 * time.Hour)), pinInput(), []string{"Normal PinActivated: hosted serves first on default until 22:19Z: game night"}},
		"it goes on": {pinInput(), pinInput(moment(time.Minute)), nil},
		"it ends":    {pinInput(), pinInput(moment(time.Hour)), []string{"Normal PinExpired: the pin of hosted has ended: game night; the order of the chain holds again"}},
		"it ends under another": {pinInput(), pinInput(moment(time.Hour), func(in *PinInput) {
			entry := firstOf(in.Routes)
			entry.Pins = append(entry.Pins, table.Pin{Name: "other", Backend: "tower", Mode: table.PinOnly, ExpiresAt: now.Add(2 * time.Hour)})
		}), []string{"Normal PinExpired: the pin of hosted has ended: game night; other pins hold on"}},
		"it ends and was of no use": {pinInput(func(in *PinInput) { in.Verdict.MissingIn = []string{"default"} }), pinInput(moment(time.Hour)), []string{
			"Normal PinExpired: the pin of hosted has ended: game night; the order of the chain holds again"}},
		"it comes into force later": {pinInput(func(in *PinInput) { in.Verdict.MissingIn = []string{"default"} }), pinInput(), []string{
			"Normal PinActivated: hosted serves first on default until 22:19Z: game night"}},
		"it ends while the manager is away": {pinInput(moment(-2 * time.Hour)), pinInput(moment(time.Hour)), []string{
			"Normal PinExpired: the pin of hosted has ended: game night; the order of the chain holds again"}},
		"it ends beside one that is over, too": {pinInput(), pinInput(moment(time.Hour), func(in *PinInput) {
			entry := firstOf(in.Routes)
			entry.Pins = append(entry.Pins, table.Pin{Name: "other", Backend: "tower", Mode: table.PinOnly, ExpiresAt: now})
		}), []string{"Normal PinExpired: the pin of hosted has ended: game night; the order of the chain holds again"}},
		"it begins without a reason, and puts one last": {PinInput{}, pinInput(func(in *PinInput) { in.Pin.Spec.Mode, in.Pin.Spec.Reason = v1alpha1.PinAvoid, "" }), []string{
			"Normal PinActivated: hosted serves last on default until 22:19Z"}},
		"it begins and allows nothing else": {PinInput{}, pinInput(func(in *PinInput) { in.Pin.Spec.Mode = v1alpha1.PinOnly }), []string{
			"Normal PinActivated: hosted alone serves on default until 22:19Z: game night"}},
		"it stays ended":     {pinInput(moment(time.Hour)), pinInput(moment(2 * time.Hour)), nil},
		"it was made ended":  {PinInput{}, pinInput(moment(time.Hour)), nil},
		"it is not accepted": {PinInput{}, pinInput(rejected), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.before.Pin != nil {
				tc.after.Pin.Status = Pin(tc.before)
			}
			after := Pin(tc.after)
			if diff := cmp.Diff(tc.want, told(PinEvents(tc.after, &after))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextChange(t *testing.T) {
	cases := map[string]struct {
		at   time.Duration
		want time.Duration
	}{
		"before it": {-2 * time.Hour, -time.Hour},
		"in it":     {0, time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NextChange(pinInput().Verdict, now.Add(tc.at)); !got.Equal(now.Add(tc.want)) {
				t.Errorf("next change = %s", got)
			}
		})
	}
	if got := NextChange(pinInput().Verdict, now.Add(time.Hour)); !got.IsZero() {
		t.Errorf("after it the next change = %s, want none", got)
	}
}
