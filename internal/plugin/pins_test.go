package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// The clock alone would call Active what no proxy knows of.
func TestAPinIsNotCalledActiveWhereTheManagerSaysOtherwise(t *testing.T) {
	now := time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)
	chain := []v1alpha1.Backend{{Name: "tower", URL: "http://tower.test/v1"}, {Name: "hosted", URL: "http://hosted.test/v1"}}
	route := &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "r", Generation: 2}, Spec: v1alpha1.LLMRouteSpec{Chain: chain}}
	route.Status.ObservedGeneration = 2
	start, later := metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(239*time.Hour))
	condition := func(kind v1alpha1.ConditionType, reason v1alpha1.ConditionReason) []metav1.Condition {
		return []metav1.Condition{{Type: string(kind), Status: metav1.ConditionFalse, Reason: string(reason), Message: "Why."}}
	}
	cases := map[string]struct {
		lasts     v1alpha1.Duration
		status    v1alpha1.BackendPinStatus
		route     []metav1.Condition
		want      string
		wantNotes []string
	}{
		"the manager has seen it": {"4h", v1alpha1.BackendPinStatus{ObservedGeneration: 3, Phase: v1alpha1.PinActive}, nil, "Active", nil},
		"the manager is not there": {"4h", v1alpha1.BackendPinStatus{}, nil, "Active (not seen by the manager)",
			[]string{"the manager has not seen the pin night as it is now, so the proxies may not know of it: is the manager running?"}},
		"it was edited since": {"4h", v1alpha1.BackendPinStatus{ObservedGeneration: 2, Phase: v1alpha1.PinExpired}, nil, "Active (not seen by the manager)",
			[]string{"the manager has not seen the pin night as it is now, so the proxies may not know of it: is the manager running?"}},
		"the table cannot be written": {"4h",
			v1alpha1.BackendPinStatus{ObservedGeneration: 3, Phase: v1alpha1.PinIneffective, Conditions: condition(v1alpha1.ConditionActive, v1alpha1.ReasonPending)}, nil,
			"Ineffective (Pending)", []string{"the proxies do not know of the pin night: Why."}},
		"the manager allows less": {"4h",
			v1alpha1.BackendPinStatus{ObservedGeneration: 3, Phase: v1alpha1.PinRejected, Conditions: condition(v1alpha1.ConditionAccepted, v1alpha1.ReasonTooLong)}, nil,
			"Rejected (TooLong)", nil},
		"the manager allows more": {"240h", v1alpha1.BackendPinStatus{ObservedGeneration: 3, Phase: v1alpha1.PinActive, StartsAt: &start, ExpiresAt: &later}, nil, "Active", nil},
		"not every proxy serves the route": {"4h", v1alpha1.BackendPinStatus{ObservedGeneration: 3, Phase: v1alpha1.PinActive}, condition(v1alpha1.ConditionProgrammed, v1alpha1.ReasonPending),
			"Active", []string{"the proxies do not serve the route as written (Pending): Why."}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pin := v1alpha1.BackendPin{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "night", Generation: 3, CreationTimestamp: start}}
			pin.Spec = v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "hosted", Mode: v1alpha1.PinPrefer, Duration: tc.lasts}
			pin.Status = tc.status
			pins := []v1alpha1.BackendPin{pin}
			if got := phaseText(&pin, judge(pins, now).phase(&pin)); got != tc.want {
				t.Errorf("phase %q, want %q", got, tc.want)
			}
			route.Status.Conditions = tc.route
			answer, err := explain(route, pins, question{at: now})
			if err != nil {
				t.Fatal(err)
			}
			if pinned := answer.First == "hosted"; pinned == rejected(pin) {
				t.Errorf("a request goes to %s", answer.First)
			}
			if diff := cmp.Diff(strings.Join(tc.wantNotes, "\n"), strings.Join(answer.Notes, "\n")); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
