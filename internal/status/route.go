package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
)

// RouteInput is everything that the status of a route is made of. Nothing in it is changed.
type RouteInput struct {
	// Route as it is stored: its status is what times are held to and where foreign conditions live.
	Route *v1alpha1.LLMRoute
	// Verdict of the compiler on the generation that the status is to speak of. Never nil.
	Verdict *compiler.RouteVerdict
	// Entry of the route as it is published; nil where it has none. It is an earlier one where the verdict's did not fit
	// (ReasonTableFull), or could not be written.
	Entry *table.Route
	// Fleet folds the live reports; nil where there are none.
	Fleet *Fleet
	// Holding are the published revisions of the route's shard that hold the verdict's generation (Ledger.Holding).
	Holding map[table.Revision]bool
	// Skew is what of the route is not in force as the served CRD is of another release; nil while that is not known.
	Skew *Skew
	// Now is wall time: pins go by it.
	Now time.Time
}

// Route returns the status of a route.
func Route(in RouteInput) v1alpha1.LLMRouteStatus {
	f := factsOf(in)
	conditions := routeConditions(f)
	serving := f.servingBackend()
	s := v1alpha1.LLMRouteStatus{
		ObservedGeneration: in.Verdict.Generation,
		Model:              cut(in.Verdict.Model, 512),
		State:              f.state(),
		Serving:            serving,
		Pinned:             pinned(in.Entry, in.Now),
		Proxies:            fmt.Sprintf("%d/%d", f.serving, f.live),
		Chain:              chain(f.backends),
		RetryAt:            firstRetry(f.backends),
		Backends:           f.backends,
		Conditions:         conditions,
	}
	s.Reason = f.reason(s.State, conditions)
	return s
}

// facts are what the conditions and the summary are both made of.
type facts struct {
	RouteInput
	live, serving int // proxies: all that count, and those that serve the generation
	backends      []v1alpha1.BackendStatus
	// candidates are the backends that a request may be sent to, in the order of chain and pins, breakers left aside.
	candidates []v1alpha1.BackendStatus
}

func factsOf(in RouteInput) *facts {
	f := &facts{RouteInput: in, live: in.Fleet.Live()}
	f.serving = in.Fleet.Serving(table.ShardOf(in.Verdict.Key.String()), in.Holding)
	backends := in.Verdict.Backends
	if f.servedAsBefore() {
		backends = backendsOf(in.Entry)
	}
	for i := range backends {
		if b := &backends[i]; listable(b.Name) && backendNamed(f.backends, b.Name) == nil {
			f.backends = append(f.backends, f.backendStatus(b))
		}
	}
	if in.Entry == nil {
		return f
	}
	for _, step := range plan.Make(plan.Input{Route: in.Entry, Now: in.Now}).Steps {
		if b := backendNamed(f.backends, step.Backend.Name); b != nil {
			f.candidates = append(f.candidates, *b)
		}
	}
	return f
}

// servedAsBefore says whether an earlier version of the route is served on.
func (f *facts) servedAsBefore() bool {
	return f.Entry != nil && (f.full() || f.Entry.Generation != f.Verdict.Generation)
}

// full says whether the route did not fit into the table.
func (f *facts) full() bool {
	return slices.ContainsFunc(f.Verdict.Problems, func(p compiler.Problem) bool { return p.Reason == v1alpha1.ReasonTableFull })
}

// backendsOf are the backends of a published entry.
func backendsOf(entry *table.Route) []compiler.BackendVerdict {
	all := make([]compiler.BackendVerdict, len(entry.Chain))
	for i := range entry.Chain {
		all[i] = compiler.BackendVerdict{Name: entry.Chain[i].Name, ID: entry.Chain[i].ID, Usable: true}
	}
	return all
}

// maxName is the length of a backend's name, in the spec and in status.
const maxName = 63

// listable says whether the list of backends in status takes a name. An object that is older than its schema may have one
// that does not fit, or one twice: a status that listed it would be refused whole, and nobody would learn what is wrong.
// Accepted tells of it.
func listable(name string) bool { return name != "" && len(name) <= maxName }

func backendNamed(all []v1alpha1.BackendStatus, name string) *v1alpha1.BackendStatus {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

// backendStatus is one line of the list of backends.
func (f *facts) backendStatus(v *compiler.BackendVerdict) v1alpha1.BackendStatus {
	s := v1alpha1.BackendStatus{Name: v.Name}
	switch {
	case !v.Usable:
		s.State = v1alpha1.BackendExcluded
		if len(v.Problems) > 0 {
			s.Reason, s.Message = string(v.Problems[0].Reason), cut(v.Problems[0].Message, 512)
		}
		return s
	case f.live == 0:
		s.State = v1alpha1.BackendUnknown
		return s
	}
	e := f.Fleet.Evidence(v.ID)
	s.State = e.State
	if !e.Down() {
		if len(e.Endpoints) > 0 {
			s.Reason = string(v1alpha1.BackendMisconfigured)
			s.Message = cut("passed over for "+strings.Join(e.Endpoints, ", ")+": the backend does not serve it", 512)
		}
		return s
	}
	s.Reason, s.Message = cut(string(e.Reason), 64), cut(e.Message, 512)
	s.Proxies = fmt.Sprintf("%d/%d", e.Proxies, f.live)
	was := backendNamed(f.Route.Status.Backends, v.Name)
	if was == nil || !isDown(was.State) {
		was = &v1alpha1.BackendStatus{}
	}
	s.Since = held(e.Since, was.Since)
	s.RetryAt = held(e.RetryAt, was.RetryAt)
	if s.RetryAt == nil && s.State == v1alpha1.BackendOpen && s.Since.Equal(was.Since) {
		s.RetryAt = passed(was.RetryAt, f.Now) // the cooldown is over and the probe is still to come: nothing happened
	}
	return s
}

// held returns an instant in whole seconds: the stored one where the two differ by no more than ReportTolerance.
func held(at time.Time, stored *metav1.Time) *metav1.Time {
	switch {
	case at.IsZero():
		return nil
	case stored != nil && near(at, stored.Time):
		return stored
	default:
		t := metav1.NewTime(at.UTC().Round(time.Second))
		return &t
	}
}

// passed returns a stored instant if it has passed. Nobody reports it any more, so one that is still to come is made up.
func passed(stored *metav1.Time, now time.Time) *metav1.Time {
	if stored == nil || stored.After(now.Add(ReportTolerance)) {
		return nil
	}
	return stored
}

// servingBackend is the backend that a request would be sent to first; empty where all are open, or nobody serves.
func (f *facts) servingBackend() string {
	if f.Entry == nil || f.live == 0 {
		return ""
	}
	p := plan.Make(plan.Input{Route: f.Entry, Now: f.Now, View: f.view})
	if p.AllOpen || len(p.Steps) == 0 {
		return ""
	}
	return p.Steps[0].Backend.Name
}

// view tells the plan what the fleet knows of a backend.
func (f *facts) view(b *table.Backend) breaker.View {
	e := f.Fleet.Evidence(b.ID)
	v := breaker.View{State: breaker.State(e.State), Reason: breaker.Reason(e.Reason), Usable: !e.Down(), Message: e.Message}
	if !e.RetryAt.IsZero() {
		v.Remaining = max(e.RetryAt.Sub(f.Now), 0)
	}
	return v
}

// state sums up the candidates.
func (f *facts) state() v1alpha1.RouteState {
	down := func(b v1alpha1.BackendStatus) bool { return isDown(b.State) }
	switch first := slices.IndexFunc(f.candidates, down); {
	case f.live == 0:
		return v1alpha1.RouteUnknown
	case len(f.candidates) == 0 || !slices.ContainsFunc(f.candidates, func(b v1alpha1.BackendStatus) bool { return !down(b) }):
		return v1alpha1.RouteDown
	case first < 0:
		return v1alpha1.RouteHealthy
	case first > 0:
		return v1alpha1.RouteDegraded
	case breaker.Reason(f.candidates[0].Reason).Saturation():
		return v1alpha1.RouteSaturated
	default:
		return v1alpha1.RouteFailing
	}
}

// reason is the one word for the REASON column: what holds Ready back, else why a backend is open, else what was left out.
func (f *facts) reason(state v1alpha1.RouteState, conditions []metav1.Condition) string {
	if ready := conditionOf(conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
		return cut(ready.Reason, 64)
	}
	if state != v1alpha1.RouteHealthy {
		for _, b := range f.candidates {
			if isDown(b.State) {
				return b.Reason
			}
		}
	}
	if refs := conditionOf(conditions, v1alpha1.ConditionResolvedRefs); refs.Status != metav1.ConditionTrue {
		return cut(refs.Reason, 64)
	}
	return cut(conditionOf(conditions, v1alpha1.ConditionSchemaSkew).Reason, 64)
}

// chain is the chain in one line; what does not serve is marked.
func chain(backends []v1alpha1.BackendStatus) string {
	names := make([]string, 0, len(backends))
	for _, b := range backends {
		if isDown(b.State) || b.State == v1alpha1.BackendExcluded {
			b.Name += "!"
		}
		names = append(names, b.Name)
	}
	return cut(strings.Join(names, ","), 1024)
}

func firstRetry(backends []v1alpha1.BackendStatus) (first *metav1.Time) {
	for _, b := range backends {
		if b.RetryAt != nil && (first == nil || b.RetryAt.Before(first)) {
			first = b.RetryAt
		}
	}
	return first
}

// pinned names the pin that has the last word: "hosted until 2026-08-13T23:00:00Z (game-night)". An Only has it whatever
// its age, else the newest.
func pinned(entry *table.Route, now time.Time) string {
	if entry == nil {
		return ""
	}
	var last *table.Pin
	for _, s := range pin.States(entry, now) {
		if s.Active && (last == nil || last.Mode != table.PinOnly || s.Pin.Mode == table.PinOnly) {
			last = s.Pin
		}
	}
	if last == nil {
		return ""
	}
	words := map[table.PinMode]string{table.PinOnly: "only ", table.PinAvoid: "not "}
	return cut(fmt.Sprintf("%s%s until %s (%s)", words[last.Mode], last.Backend, clock(last.ExpiresAt), last.Name), 512)
}
