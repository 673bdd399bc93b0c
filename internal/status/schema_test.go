package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/test/crd"
)

// longest names that Kubernetes takes.
var (
	longName = strings.Repeat("n", 253)
	longKey  = types.NamespacedName{Namespace: strings.Repeat("s", 63), Name: longName}
	longText = strings.Repeat("长", 3000)
)

// backendName is the longest name of a backend.
func backendName(i int) string { return fmt.Sprintf("b%d%s", i, strings.Repeat("b", 61)) }

// crowd is a live fleet in which each proxy tells as much of each of eight backends as its schema lets it.
func crowd(proxies int, change func(*v1alpha1.ProxyReportStatus)) *Fleet {
	var reports []Report
	for p := range proxies {
		s := &v1alpha1.ProxyReportStatus{Schema: v1alpha1.ReportSchema, RenewTime: metav1.NewMicroTime(now)}
		for i := range 8 {
			b := open(backendName(i), v1alpha1.BackendReason(strings.Repeat("R", 64)), 1)
			b.Message = strings.Repeat("息", 256)
			if i == 7 {
				b.State = v1alpha1.BackendClosed
			}
			for e := range 8 {
				b.Endpoints = append(b.Endpoints, v1alpha1.EndpointReport{Endpoint: fmt.Sprintf("%d%s", e, strings.Repeat("点", 63)), Remaining: "30s"})
			}
			s.Breakers = append(s.Breakers, b)
		}
		change(s)
		reports = append(reports, Report{Pod: fmt.Sprintf("p%03d", p), Status: s, Seen: now})
	}
	return NewFleet(reports)
}

// largeRoute is a route of which there is as much to say as there can be.
func largeRoute(fleet *Fleet) RouteInput {
	in := RouteInput{
		Route: &v1alpha1.LLMRoute{}, Fleet: fleet, Now: now,
		Verdict: &compiler.RouteVerdict{Key: longKey, Generation: 1 << 40, Model: longKey.String(), Programmable: true},
		Entry: &table.Route{Namespace: longKey.Namespace, Name: longName, Pins: []table.Pin{
			{Name: longName, Backend: backendName(0), Mode: table.PinAvoid, StartsAt: now, ExpiresAt: now.Add(time.Hour), Reason: longText},
		}},
		Skew: &Skew{Dropped: slices.Repeat([]string{longName}, 100), Ignored: slices.Repeat([]string{longName}, 100)},
	}
	for i := range 8 {
		b := compiler.BackendVerdict{Name: backendName(i), ID: table.BackendID(backendName(i)), Usable: i != 3}
		b.Problems = []compiler.Problem{{
			Condition: v1alpha1.ConditionResolvedRefs, Reason: v1alpha1.ReasonSecretNotFound, Field: longName, Message: longText,
		}}
		in.Verdict.Problems = append(in.Verdict.Problems, b.Problems...)
		in.Verdict.Backends = append(in.Verdict.Backends, b)
		in.Entry.Chain = append(in.Entry.Chain, table.Backend{Name: b.Name, ID: b.ID})
	}
	return in
}

func with(in RouteInput, change func(*RouteInput)) RouteInput {
	change(&in)
	return in
}

func TestEveryStatusOfARouteFitsItsSchema(t *testing.T) {
	schema, err := crd.Read("llmroutes")
	if err != nil {
		t.Fatal(err)
	}
	asTold := func(*v1alpha1.ProxyReportStatus) {}
	since := func(at string, renewed time.Time) func(*v1alpha1.ProxyReportStatus) {
		instant, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		return func(s *v1alpha1.ProxyReportStatus) {
			s.RenewTime = metav1.NewMicroTime(renewed)
			for i := range s.Breakers {
				s.Breakers[i].Since = &metav1.MicroTime{Time: instant}
			}
		}
	}
	year := func(n int) time.Time { return time.Date(n, 12, 31, 23, 59, 59, 0, time.UTC) }
	cases := map[string]RouteInput{
		"as much as there can be, of 300 proxies":   largeRoute(crowd(300, asTold)),
		"without a proxy":                           largeRoute(nil),
		"a proxy with a clock that is far behind":   largeRoute(crowd(1, since("2026-01-01T00:00:00Z", year(1)))),
		"a proxy with a clock that is far ahead":    largeRoute(crowd(1, since("2026-01-01T00:00:00Z", year(9999)))),
		"an instant at the end of all time":         largeRoute(crowd(1, since("9999-12-31T23:59:59.9Z", now))),
		"an instant after it, by our clock":         largeRoute(crowd(1, since("9999-12-31T00:00:00Z", now.AddDate(0, -1, 0)))),
		"an instant before it, by our clock":        largeRoute(crowd(1, since("0001-01-01T00:00:01Z", now.AddDate(2, 0, 0)))),
		"a model in a script of four bytes":         with(largeRoute(nil), func(in *RouteInput) { in.Verdict.Model = strings.Repeat("𠮷", 600) }),
		"names that no schema has seen":             with(largeRoute(nil), func(in *RouteInput) { in.Verdict.Backends[0].Name, in.Verdict.Backends[1].Name = longText, "" }),
		"a name twice":                              with(largeRoute(nil), func(in *RouteInput) { in.Verdict.Backends[1].Name = in.Verdict.Backends[0].Name }),
		"as many conditions of others as there fit": with(largeRoute(nil), func(in *RouteInput) { in.Route.Status.Conditions = conditionsOfOthers(16) }),
		"damaged conditions": with(largeRoute(nil), func(in *RouteInput) {
			in.Route.Status.Conditions = []metav1.Condition{{Type: "Ready"}, {}, {Type: "Foo", Status: "Maybe", Reason: "R"}}
		}),
		"a model that another route has": with(largeRoute(nil), func(in *RouteInput) {
			in.Verdict.Problems = []compiler.Problem{{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonModelConflict, Field: "spec.model", Message: longText}}
			in.Verdict.Programmable, in.Entry = false, nil
		}),
	}
	for name, in := range cases {
		t.Run(name, func(t *testing.T) {
			status := Route(in)
			object := &v1alpha1.LLMRoute{Spec: v1alpha1.LLMRouteSpec{Chain: []v1alpha1.Backend{{Name: "b", URL: "http://b"}}}, Status: status}
			faults, err := schema.Faults(object)
			if err != nil || len(faults) > 0 {
				t.Errorf("an API server would refuse it: %q %v", faults, err)
			}
			for _, e := range RouteEvents(in, &status) {
				if len(e.Note) > maxNote || len("Observe/"+e.Backend) > 128 {
					t.Errorf("an API server would refuse the Event %s of %d bytes", e.Reason, len(e.Note))
				}
			}
		})
	}
}

func conditionsOfOthers(n int) (all []metav1.Condition) {
	for i := range n {
		all = append(all, metav1.Condition{
			Type: fmt.Sprintf("other.dev/C%d", i), Status: metav1.ConditionTrue, Reason: "Theirs", LastTransitionTime: metav1.NewTime(now),
		})
	}
	return all
}

func TestEveryStatusOfAPinFitsItsSchema(t *testing.T) {
	schema, err := crd.Read("backendpins")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("%s%04d", longName[:249], i))
	}
	end := time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	problem := compiler.Problem{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonInvalidSpec, Message: longText}
	cases := map[string]*compiler.PinVerdict{
		"it reaches thousands of routes":             {StartsAt: now, ExpiresAt: end, MatchedRoutes: names, UnknownRoutes: names[:16]},
		"it is without its backend on all of them":   {StartsAt: now, ExpiresAt: end, MatchedRoutes: names, MissingIn: names},
		"it is without its backend on some of them":  {StartsAt: now, ExpiresAt: end, MatchedRoutes: names, MissingIn: names[:100]},
		"it is not accepted":                         {Problems: slices.Repeat([]compiler.Problem{problem}, 20)},
		"it has always been there, as that of files": {ExpiresAt: end},
		"it is over": {StartsAt: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), ExpiresAt: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)},
	}
	for name, v := range cases {
		t.Run(name, func(t *testing.T) {
			pin := &v1alpha1.BackendPin{Spec: v1alpha1.BackendPinSpec{
				Backend: backendName(0), Mode: v1alpha1.PinOnly, Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Reason: strings.Repeat("因", 256),
			}}
			pin.Status.Conditions = conditionsOfOthers(16)
			in := PinInput{Pin: pin, Verdict: v, Now: now, Skew: &Skew{Dropped: names[:50]}}
			status := Pin(in)
			events := PinEvents(in, &status)
			pin.Status = status
			faults, err := schema.Faults(pin)
			if err != nil || len(faults) > 0 {
				t.Errorf("an API server would refuse it: %q %v", faults, err)
			}
			for _, e := range events {
				if len(e.Note) > maxNote {
					t.Errorf("an API server would refuse the Event %s of %d bytes", e.Reason, len(e.Note))
				}
			}
		})
	}
}
