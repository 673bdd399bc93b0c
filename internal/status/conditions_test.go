package status

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// check is one case of a condition: an input, and "Status/Reason" with a part of the message.
type check struct {
	in          RouteInput
	want        string
	wantMessage string
}

func checkCondition(t *testing.T, condition func(*facts) finding, cases map[string]check) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := condition(factsOf(tc.in))
			if s := string(got.status) + "/" + string(got.reason); s != tc.want {
				t.Errorf("condition = %s, want %s", s, tc.want)
			}
			if !strings.Contains(got.message, tc.wantMessage) {
				t.Errorf("message = %q, want it to say %q", got.message, tc.wantMessage)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	shared := input()
	shared.Verdict.Backends[0].Lowered = []compiler.Lowered{
		{Field: "saturation.cooldown", Value: "5m", Route: types.NamespacedName{Namespace: "ai", Name: "other"}},
		{Field: "maxInFlight", Value: "2", Route: types.NamespacedName{Namespace: "ai", Name: "third"}},
	}
	checkCondition(t, accepted, map[string]check{
		"limits that other routes lower": {shared, "True/Accepted", `holds its model. Of backend "tower", saturation.cooldown is 5m, as LLMRoute ai/other has it for the same backend. ` +
			`Of backend "tower", maxInFlight is 2, as LLMRoute ai/third has it for the same backend.`},
		"a good spec":                      {input(), "True/Accepted", "holds its model"},
		"a model that another route holds": {refused(input()), "False/ModelConflict", "spec.model: Route other/winner holds the model."},
		"a reference that is missing is no fault of the spec": {without(input(), "tower", v1alpha1.ReasonSecretNotFound), "True/Accepted", ""},
	})
}

func TestResolvedRefs(t *testing.T) {
	both := without(without(input(), "tower", v1alpha1.ReasonSecretNotFound), "hosted", v1alpha1.ReasonKeyNotFound)
	third := input()
	third.Verdict.Backends = append(third.Verdict.Backends, compiler.BackendVerdict{Name: "third", ID: "id-third", Usable: true})
	third = without(without(third, "tower", v1alpha1.ReasonSecretNotFound), "hosted", v1alpha1.ReasonKeyNotFound)
	checkCondition(t, resolvedRefs, map[string]check{
		"everything is there":             {input(), "True/ResolvedRefs", ""},
		"one is missing, the rest serves": {without(input(), "tower", v1alpha1.ReasonSecretNotFound), "False/SecretNotFound", "PartiallyResolved: 1 of 2 backends can serve. spec.chain[0].auth.secretRef: Secret tower"},
		"two are missing for two reasons": {third, "False/PartiallyResolved", "PartiallyResolved: 1 of 3"},
		"all are missing":                 {both, "False/SecretNotFound", "spec.chain[0]"},
	})
}

func TestProgrammed(t *testing.T) {
	unpublished := input(proxyReport("p1"))
	unpublished.Holding = nil
	empty := without(without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), "hosted", v1alpha1.ReasonSecretNotFound)
	checkCondition(t, programmed, map[string]check{
		"every live proxy serves it":                       {input(proxyReport("p1"), proxyReport("p2")), "True/Programmed", "generation 3"},
		"one lags":                                         {input(proxyReport("p1"), behind("p2")), "False/Pending", "1 of 2"},
		"one that lags is draining":                        {input(proxyReport("p1"), draining(behind("p2"))), "True/Programmed", ""},
		"it is not published yet":                          {unpublished, "False/Pending", "0 of 1"},
		"nobody is there":                                  {input(), "Unknown/NoProxies", ""},
		"only draining proxies are there":                  {input(draining(proxyReport("p1"))), "Unknown/NoProxies", ""},
		"it is not accepted":                               {refused(input(proxyReport("p1"))), "False/NotAccepted", ""},
		"it does not fit, so what was before is served on": {tooLarge(input(proxyReport("p1"))), "False/TableFull", "an earlier version"},
		"it is not in the table yet":                       {withoutEntry(input(proxyReport("p1"))), "False/Pending", ""},
		"what is served on while nothing can be written":   {unwritten(input(proxyReport("p1"))), "False/Pending", ""},
		"it does not fit and never did":                    {never(input(proxyReport("p1"))), "False/NotAccepted", ""},
		"one that lags reads another version of the table": {
			input(proxyReport("p1"), foreign(behind("p2"), func(s *v1alpha1.ProxyReportStatus) { s.TableSchema = table.Schema + 1 })), "False/SchemaUnknown", "1 of 2",
		},
		"one writes reports that nobody here reads": {
			input(proxyReport("p1"), foreign(proxyReport("p2"), func(s *v1alpha1.ProxyReportStatus) { s.Schema++ })), "False/SchemaUnknown", "1 of 2",
		},
		"one of another release serves it all the same": {
			input(foreign(proxyReport("p1"), func(s *v1alpha1.ProxyReportStatus) { s.TableSchema = table.Schema + 1 })), "True/Programmed", "",
		},
		"a route without a usable backend is served as such": {empty, "True/Programmed", ""},
	})
}

func TestBackendsAvailable(t *testing.T) {
	tower, hosted := open("id-tower", v1alpha1.BackendSaturated, 1), open("id-hosted", v1alpha1.BackendFailing, 1)
	only := input(proxyReport("p1", tower))
	only.Entry.Pins = []table.Pin{{Name: "p", Backend: "tower", Mode: table.PinOnly, StartsAt: now, ExpiresAt: now.AddDate(0, 0, 1)}}
	checkCondition(t, backendsAvailable, map[string]check{
		"all are well":                                     {input(proxyReport("p1")), "True/BackendsAvailable", ""},
		"one is open":                                      {input(proxyReport("p1", tower)), "True/BackendsAvailable", ""},
		"all are open":                                     {input(proxyReport("p1", tower, hosted)), "False/AllBackendsOpen", ""},
		"the only one that a pin allows is open":           {only, "False/AllBackendsOpen", ""},
		"the only one that resolves is open":               {without(input(proxyReport("p1", hosted)), "tower", v1alpha1.ReasonSecretNotFound), "False/AllBackendsOpen", ""},
		"none resolves":                                    {without(without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), "hosted", v1alpha1.ReasonSecretNotFound), "False/NoUsableBackend", ""},
		"nobody is there to say":                           {input(), "Unknown/NoProxies", ""},
		"it does not fit, so what was before is served on": {tooLarge(input(proxyReport("p1"))), "True/BackendsAvailable", ""},
		"what is served on is all open":                    {tooLarge(input(proxyReport("p1", tower, open("id-backup", v1alpha1.BackendFailing, 1)))), "False/AllBackendsOpen", ""},
		"it is not in the table yet":                       {withoutEntry(input(proxyReport("p1"))), "False/Pending", ""},
		"what is served on while nothing can be written":   {unwritten(input(proxyReport("p1"))), "True/BackendsAvailable", ""},
		"it does not fit and never did":                    {never(input(proxyReport("p1"))), "False/NoUsableBackend", ""},
	})
}

// withoutEntry is an input that is to be published still.
func withoutEntry(in RouteInput) RouteInput {
	in.Entry, in.Holding = nil, nil
	return in
}

func TestReadyIsComputed(t *testing.T) {
	tower, hosted := open("id-tower", v1alpha1.BackendSaturated, 1), open("id-hosted", v1alpha1.BackendFailing, 1)
	computed := func(f *facts) finding { return ready(routeConditions(f)) }
	checkCondition(t, computed, map[string]check{
		"all holds":              {input(proxyReport("p1")), "True/Ready", ""},
		"a reference is missing": {without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), "True/Ready", ""},
		"not accepted":           {refused(input(proxyReport("p1"))), "False/ModelConflict", "Accepted is False"},
		"it does not fit":        {tooLarge(input(proxyReport("p1"))), "False/TableFull", "Accepted is False"},
		"not everywhere":         {input(behind("p1")), "False/Pending", "Programmed is False"},
		"all open":               {input(proxyReport("p1", tower, hosted)), "False/AllBackendsOpen", "BackendsAvailable is False"},
		"nobody knows":           {input(), "Unknown/NoProxies", "Programmed is Unknown"},
	})
}

func TestConditionsKeepWhatIsNotOurs(t *testing.T) {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		keepsForeign(t, status)
	}
}

func keepsForeign(t *testing.T, status metav1.ConditionStatus) {
	t.Helper()
	in := input(proxyReport("p1"))
	foreign := metav1.Condition{Type: "Foo", Status: status, Reason: "Bar", LastTransitionTime: *at(now.AddDate(1, 0, 0))}
	in.Route.Status.Conditions = []metav1.Condition{foreign}
	all := Route(in).Conditions
	if all[0] != foreign || len(all) != 6 {
		t.Errorf("conditions = %v, want the foreign one unchanged and ours after it", all)
	}
	for _, c := range all[1:] {
		if c.ObservedGeneration != 3 {
			t.Errorf("%s.observedGeneration = %d, want 3", c.Type, c.ObservedGeneration)
		}
	}
}

// A status that the API server refuses is never written, so what somebody else left there must not be in the way.
func TestConditionsLeaveOutWhatNobodyCanStore(t *testing.T) {
	foreign := metav1.Condition{Type: "Foo", Status: metav1.ConditionTrue, Reason: "Bar", LastTransitionTime: *at(now)}
	odd := map[string]func(*metav1.Condition){
		"no type":            func(c *metav1.Condition) { c.Type = "" },
		"no reason":          func(c *metav1.Condition) { c.Reason = "" },
		"no time":            func(c *metav1.Condition) { c.LastTransitionTime = metav1.Time{} },
		"an unheard-of word": func(c *metav1.Condition) { c.Status = "Maybe" },
	}
	for name, change := range odd {
		t.Run(name, func(t *testing.T) {
			in, c := input(proxyReport("p1")), foreign
			change(&c)
			in.Route.Status.Conditions = []metav1.Condition{c}
			if all := Route(in).Conditions; len(all) != len(Route(input()).Conditions) {
				t.Errorf("conditions = %v, want ours alone", all)
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		in := input(proxyReport("p1"))
		in.Skew = &Skew{Dropped: []string{"spec.queue"}}
		for i := range maxConditions {
			c := foreign
			c.Type = fmt.Sprintf("Foo-%02d", i)
			in.Route.Status.Conditions = append(in.Route.Status.Conditions, c)
		}
		in.Route.Status.Conditions = Route(in).Conditions
		if all := Route(in).Conditions; len(all) != maxConditions || conditionOf(all, v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
			t.Errorf("%d conditions, Ready is %v", len(all), conditionOf(all, v1alpha1.ConditionReady).Status)
		}
	})
}

func TestAMessageTellsTheFirstProblemsAndCountsTheRest(t *testing.T) {
	in := input()
	for i := range maxSentences + 2 {
		p := compiler.Problem{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonInvalidSpec, Message: fmt.Sprintf("Wrong %d.", i)}
		in.Verdict.Problems = append(in.Verdict.Problems, p)
	}
	const want = "Wrong 0. Wrong 1. Wrong 2. Wrong 3. Wrong 4. Wrong 5. Wrong 6. Wrong 7. And 2 more."
	if got := accepted(factsOf(in)).message; got != want {
		t.Errorf("message = %q, want %q", got, want)
	}
}
