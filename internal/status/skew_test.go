package status

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func TestSchemaSkew(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("spec.f%02d", i))
	}
	stored := []metav1.Condition{{Type: string(v1alpha1.ConditionSchemaSkew), Status: metav1.ConditionTrue, Reason: "CRDOlder", Message: "before", LastTransitionTime: *at(now)}}
	cases := map[string]struct {
		stored       []metav1.Condition
		skew         *Skew
		want         string // reason; empty: no condition
		wantMessages []string
	}{
		"none":                                {nil, &Skew{}, "", nil},
		"one that is over":                    {stored, &Skew{}, "", nil},
		"nobody knows yet":                    {stored, nil, "CRDOlder", []string{"before"}},
		"nobody knows and nothing was":        {nil, nil, "", nil},
		"an older CRD":                        {nil, &Skew{Dropped: []string{"spec.queue"}}, "CRDOlder", []string{"the API server drops spec.queue;"}},
		"a newer CRD":                         {nil, &Skew{Ignored: []string{"spec.budget"}}, "CRDNewer", []string{"does not do: spec.budget;"}},
		"a CRD of another branch":             {stored, &Skew{Dropped: []string{"spec.queue"}, Ignored: []string{"spec.budget"}}, "CRDOlder", []string{"spec.queue", "spec.budget"}},
		"more fields than a message can name": {nil, &Skew{Dropped: many}, "CRDOlder", []string{"spec.f07 and 12 more;"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route, pin := input(proxyReport("p1")), pinInput()
			route.Skew, pin.Skew = tc.skew, tc.skew
			route.Route.Status.Conditions, pin.Pin.Status.Conditions = tc.stored, tc.stored
			s := Route(route)
			for kind, all := range map[string][]metav1.Condition{"route": s.Conditions, "pin": Pin(pin).Conditions} {
				c := meta.FindStatusCondition(all, string(v1alpha1.ConditionSchemaSkew))
				if (c == nil) != (tc.want == "") || c != nil && (c.Reason != tc.want || c.Status != metav1.ConditionTrue) {
					t.Fatalf("condition of a %s is %v, want %q", kind, c, tc.want)
				}
				for _, part := range tc.wantMessages {
					if !strings.Contains(c.Message, part) {
						t.Errorf("message of a %s = %q, want it to say %q", kind, c.Message, part)
					}
				}
			}
			if s.Reason != tc.want || conditionOf(s.Conditions, v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
				t.Errorf("REASON = %q, want %q on a route that is ready", s.Reason, tc.want)
			}
		})
	}
}
