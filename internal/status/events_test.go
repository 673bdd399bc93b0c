package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestRouteEventsTellTransitions(t *testing.T) {
	counted := func(b v1alpha1.BreakerReport, saturations, failures int32) v1alpha1.BreakerReport {
		b.Saturations, b.Failures = saturations, failures
		return b
	}
	tower := counted(open("id-tower", v1alpha1.BackendSaturated, 1), 2, 0)
	hosted := counted(open("id-hosted", v1alpha1.BackendFailing, 1), 0, 5)
	long := open("id-tower", v1alpha1.BackendRefused, 1)
	long.Remaining = "26h"
	probing := tower
	probing.State, probing.Remaining = v1alpha1.BackendHalfOpen, ""
	missing := v1alpha1.BreakerReport{ID: "id-tower", State: v1alpha1.BackendClosed, Endpoints: []v1alpha1.EndpointReport{{Endpoint: "embeddings"}}}

	cases := map[string]struct {
		before, after RouteInput
		want          []string
	}{
		"nothing happened": {input(proxyReport("p1")), input(proxyReport("p1")), nil},
		"a first status":   {RouteInput{}, input(proxyReport("p1")), nil},
		"a backend went quiet": {input(proxyReport("p1")), input(proxyReport("p1", tower)),
			[]string{"Warning BackendSaturated: tower went quiet (2 in a row); hosted serves until 21:34Z"}},
		"a backend asks for a wait beyond reason": {input(proxyReport("p1")), input(proxyReport("p1", long)),
			[]string{"Warning BackendSaturated: tower says that it has no capacity; hosted serves until 2026-08-14 21:19Z"}},
		"a backend fails": {input(proxyReport("p1")), input(proxyReport("p1", hosted)),
			[]string{"Warning BackendFailing: hosted is failing (5 in a row); tower serves until 21:34Z"}},
		"a backend refuses us": {input(proxyReport("p1")), input(proxyReport("p1", open("id-tower", v1alpha1.BackendMisconfigured, 1))),
			[]string{"Warning BackendMisconfigured: tower refuses the credential or the URL of the route; hosted serves until 21:34Z"}},
		"a backend lacks an endpoint": {input(proxyReport("p1")), input(proxyReport("p1", missing)),
			[]string{"Warning BackendMisconfigured: tower is passed over for embeddings: the backend does not serve it"}},
		"the last backend goes": {input(proxyReport("p1", tower)), input(proxyReport("p1", tower, hosted)), []string{
			"Warning BackendFailing: hosted is failing (5 in a row); no backend serves until 21:34Z",
			"Warning AllBackendsOpen: every backend that may serve is open; one request at a time is tried, the others are refused until 21:34Z"}},
		"the last backend goes, and callers are to be turned away": {rejecting(input(proxyReport("p1", tower))), rejecting(input(proxyReport("p1", tower, hosted))), []string{
			"Warning BackendFailing: hosted is failing (5 in a row); no backend serves until 21:34Z",
			"Warning AllBackendsOpen: every backend that may serve is open; callers are refused until 21:34Z"}},
		"an Only allows what is left out, and nothing is open": {input(proxyReport("p1")), onlyOnWhatIsLeftOut(), nil},
		"a backend is back": {input(proxyReport("p1", tower)), input(proxyReport("p1", closed("id-tower", 2))),
			[]string{"Normal BackendRecovered: tower is well again; tower serves"}},
		"all stay open": {input(proxyReport("p1", tower, hosted)), input(proxyReport("p1", tower, hosted), proxyReport("p2", tower, hosted)), nil},
		"a backend is open for another reason": {input(proxyReport("p1", tower)), input(proxyReport("p1", open("id-tower", v1alpha1.BackendFailing, 2))),
			[]string{"Warning BackendFailing: tower is failing; hosted serves until 21:34Z"}},
		"another backend of its hardware is saturated": {input(proxyReport("p1")), input(proxyReport("p1", open("id-tower", v1alpha1.BackendGroupSaturated, 1))),
			[]string{"Warning BackendSaturated: tower shares hardware with a backend that is saturated; hosted serves until 21:34Z"}},
		"a backend is open until a probe": {input(proxyReport("p1")), input(proxyReport("p1", probing)),
			[]string{"Warning BackendSaturated: tower went quiet (2 in a row); hosted serves until a probe succeeds"}},
		"a Secret is there at last":    {without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), input(proxyReport("p1")), nil},
		"an endpoint is still missing": {input(proxyReport("p1", missing)), input(proxyReport("p1", missing), proxyReport("p2")), nil},
		"a probe is no news":           {input(proxyReport("p1", tower)), input(proxyReport("p1", probing)), nil},
		"another proxy adopts":         {input(proxyReport("p1", tower), proxyReport("p2")), input(proxyReport("p1", tower), proxyReport("p2", tower)), nil},
		"the proxies go away":          {input(proxyReport("p1", tower)), input(), nil},
		"another route takes the model": {input(proxyReport("p1")), refused(input(proxyReport("p1"))),
			[]string{"Warning ModelConflict: spec.model: Route other/winner holds the model."}},
		"the conflict lasts": {refused(input(proxyReport("p1"))), refused(input(proxyReport("p1"))), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.before.Verdict != nil {
				tc.after.Route.Status = Route(tc.before)
			}
			after := Route(tc.after)
			if diff := cmp.Diff(tc.want, told(RouteEvents(tc.after, &after))); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// onlyOnWhatIsLeftOut is a route on which a pin of mode Only allows a backend whose Secret is not there.
func onlyOnWhatIsLeftOut() RouteInput {
	in := without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound)
	in.Entry.Pins = []table.Pin{{Name: "just-tower", Backend: "tower", Mode: table.PinOnly, ExpiresAt: now.Add(time.Hour)}}
	return in
}

func told(events []Event) []string {
	var lines []string
	for _, e := range events {
		lines = append(lines, e.Type+" "+string(e.Reason)+": "+e.Note)
	}
	return lines
}

func TestEventsOfOneMomentNameTheirBackends(t *testing.T) {
	after := input(proxyReport("p1", open("id-tower", v1alpha1.BackendSaturated, 1), open("id-hosted", v1alpha1.BackendGroupSaturated, 1)))
	after.Route.Status = Route(input(proxyReport("p1")))
	is := Route(after)
	var about []string
	for _, e := range RouteEvents(after, &is) {
		about = append(about, string(e.Reason)+" "+e.Backend)
	}
	if diff := cmp.Diff([]string{"BackendSaturated tower", "BackendSaturated hosted", "AllBackendsOpen "}, about); diff != "" {
		t.Errorf("what the events are about (-want +got):\n%s", diff)
	}
}

func TestTimeOfDay(t *testing.T) {
	if got := timeOfDay(now.Add(2*time.Hour).In(time.FixedZone("far", 3600)), now); got != "23:19Z" {
		t.Errorf("time of day = %s, want it in UTC", got)
	}
}

func rejecting(in RouteInput) RouteInput {
	in.Entry.WhenAllOpen = table.AllOpenReject
	return in
}
