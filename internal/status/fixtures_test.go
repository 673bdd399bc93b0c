package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// now is the instant of all tests.
var now = time.Date(2026, 8, 13, 21, 19, 0, 0, time.UTC)

const revision = table.Revision("r1")

// key of the route in all tests.
var key = types.NamespacedName{Namespace: "sirens-echo", Name: "default"}

// input is a route over tower and hosted, at generation 3, which a fleet serves.
func input(reports ...Report) RouteInput {
	return RouteInput{
		Route: &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 3}},
		Verdict: &compiler.RouteVerdict{
			Key: key, Generation: 3, Model: "sirens-echo/default", Programmable: true,
			Backends: []compiler.BackendVerdict{{Name: "tower", ID: "id-tower", Usable: true}, {Name: "hosted", ID: "id-hosted", Usable: true}},
		},
		Entry: &table.Route{
			Namespace: key.Namespace, Name: key.Name, Generation: 3, Model: "sirens-echo/default", WhenAllOpen: table.AllOpenTry,
			Chain: []table.Backend{{ID: "id-tower", Name: "tower"}, {ID: "id-hosted", Name: "hosted"}},
		},
		Fleet:   NewFleet(reports),
		Holding: map[table.Revision]bool{revision: true},
		Now:     now,
	}
}

// without leaves a backend out of an input, for a reason.
func without(in RouteInput, name string, reason v1alpha1.ConditionReason) RouteInput {
	p := compiler.Problem{Condition: v1alpha1.ConditionResolvedRefs, Reason: reason, Field: "spec.chain[0].auth.secretRef", Message: "Secret tower does not exist."}
	in.Verdict.Problems = append(in.Verdict.Problems, p)
	for i := range in.Verdict.Backends {
		if b := &in.Verdict.Backends[i]; b.Name == name {
			b.Usable, b.ID, b.Problems = false, "", []compiler.Problem{p}
		}
	}
	for i := range in.Entry.Chain {
		if in.Entry.Chain[i].Name == name {
			in.Entry.Chain = append(in.Entry.Chain[:i:i], in.Entry.Chain[i+1:]...)
			break
		}
	}
	in.Verdict.Programmable = len(in.Entry.Chain) > 0
	return in
}

// tooLarge is an input that did not fit into the table. What it had published before is served on: tower and backup, without a pin.
func tooLarge(in RouteInput) RouteInput {
	in.Verdict.Problems = []compiler.Problem{{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonTableFull, Field: "spec", Message: "The route does not fit."}}
	in.Verdict.Programmable = false
	in.Entry.Generation = 2
	in.Entry.Chain = []table.Backend{{ID: "id-tower", Name: "tower"}, {ID: "id-backup", Name: "backup"}}
	in.Holding = nil
	return in
}

// never is an input that did not fit, of which nothing was published before.
func never(in RouteInput) RouteInput {
	in = tooLarge(in)
	in.Entry = nil
	return in
}

// unwritten is an input that is not published, as the table cannot be written. What had been published before is served on.
func unwritten(in RouteInput) RouteInput {
	in = tooLarge(in)
	in.Verdict.Problems, in.Verdict.Programmable = nil, true
	return in
}

// foreign is a live proxy of another release.
func foreign(r Report, change func(*v1alpha1.ProxyReportStatus)) Report {
	change(r.Status)
	return r
}

// refused is an input whose model belongs to another route.
func refused(in RouteInput) RouteInput {
	in.Verdict.Problems = []compiler.Problem{{Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonModelConflict, Field: "spec.model", Message: "Route other/winner holds the model."}}
	in.Verdict.Programmable = false
	in.Entry = nil
	return in
}

// proxyReport is a live proxy that serves the revision and says this of backends.
func proxyReport(pod string, breakers ...v1alpha1.BreakerReport) Report {
	s := &v1alpha1.ProxyReportStatus{Pod: pod, Schema: v1alpha1.ReportSchema, RenewTime: metav1.NewMicroTime(now), Ready: true, Breakers: breakers}
	s.Tables = []v1alpha1.TableRevision{{Shard: int32(table.ShardOf(key.String())), Revision: string(revision)}}
	return Report{Pod: pod, Status: s}
}

// behind is a live proxy that serves another revision.
func behind(pod string) Report {
	r := proxyReport(pod)
	r.Status.Tables[0].Revision = "r0"
	return r
}

// draining is a proxy that is about to go.
func draining(r Report) Report {
	r.Status.Draining = true
	return r
}

// open is a breaker that opened a minute ago and has a quarter of an hour left.
func open(id string, reason v1alpha1.BackendReason, epoch int64) v1alpha1.BreakerReport {
	since := metav1.NewMicroTime(now.Add(-time.Minute))
	return v1alpha1.BreakerReport{ID: id, State: v1alpha1.BackendOpen, Reason: reason, Epoch: epoch, Since: &since, Remaining: "15m", Message: "no first token within 20s"}
}

func closed(id string, epoch int64) v1alpha1.BreakerReport {
	return v1alpha1.BreakerReport{ID: id, State: v1alpha1.BackendClosed, Epoch: epoch}
}

func at(t time.Time) *metav1.Time {
	m := metav1.NewTime(t)
	return &m
}
