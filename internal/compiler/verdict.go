package compiler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Table holds the routes that won their model, with the backends that can be used. It is made when it is first asked for.
func (r *Result) Table() *table.Table { return r.table() }

// namespaces are none in the zero Result.
func (r *Result) namespaces() map[string]*namespace {
	if r.compiled == nil {
		return nil
	}
	return r.compiled.namespaces
}

// In returns the keys of the routes and pins of a namespace, sorted.
func (r *Result) In(namespace string) (routes, pins []types.NamespacedName) {
	n := r.namespaces()[namespace]
	if n == nil {
		return nil, nil
	}
	for _, v := range n.verdicts {
		routes = append(routes, v.Key)
	}
	for _, v := range n.pinVerdicts {
		pins = append(pins, v.Key)
	}
	return routes, pins
}

// ChangedSince returns the namespaces in which a verdict or an entry may be another than in an earlier Result, which may be
// the zero one, in no order. In all others they are the same, by pointer.
func (r *Result) ChangedSince(earlier *Result) []string {
	changed := map[string]bool{}
	for _, pair := range [][2]*Result{{r, earlier}, {earlier, r}} {
		one, other := pair[0], pair[1].namespaces()
		maps.Copy(changed, one.full)
		for name, n := range one.namespaces() {
			if other[name] != n {
				changed[name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(changed))
}

// NextPinEdge is when the next pin of a namespace starts or ends after now; zero where none does.
func (r *Result) NextPinEdge(namespace string, now time.Time) time.Time {
	if n := r.namespaces()[namespace]; n != nil {
		for _, edge := range n.edges {
			if edge.After(now) {
				return edge
			}
		}
	}
	return time.Time{}
}

// SortedRoutes returns the verdicts on routes by namespace, then name.
func (r *Result) SortedRoutes() []*RouteVerdict { return sortedByKey(r.Routes) }

// SortedPins returns the verdicts on pins by namespace, then name.
func (r *Result) SortedPins() []*PinVerdict { return sortedByKey(r.Pins) }

func sortedByKey[V any](verdicts map[types.NamespacedName]V) []V {
	sorted := make([]V, 0, len(verdicts))
	for _, key := range slices.SortedFunc(maps.Keys(verdicts), compareKeys) {
		sorted = append(sorted, verdicts[key])
	}
	return sorted
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// String is the problem as one line: the field, then the sentence.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// ProblemsOf returns the problems that make a condition false, in their order.
func (v *RouteVerdict) ProblemsOf(condition v1alpha1.ConditionType) []Problem {
	return problemsOf(v.Problems, condition)
}

// Accepted says whether nothing in the spec is refused.
func (v *RouteVerdict) Accepted() bool { return len(v.ProblemsOf(v1alpha1.ConditionAccepted)) == 0 }

// IsOn says whether the verdict is on this object as it is. A nil verdict is on none.
func (v *RouteVerdict) IsOn(object metav1.Object) bool {
	return v != nil && v.UID == object.GetUID() && v.Generation == object.GetGeneration()
}

// IsOn says whether the verdict is on this object as it is. A nil verdict is on none.
func (v *PinVerdict) IsOn(object metav1.Object) bool {
	return v != nil && v.UID == object.GetUID() && v.Generation == object.GetGeneration()
}

// Backend returns the verdict on the backend of that name, or nil.
func (v *RouteVerdict) Backend(name string) *BackendVerdict {
	for i := range v.Backends {
		if v.Backends[i].Name == name {
			return &v.Backends[i]
		}
	}
	return nil
}

// Accepted says whether the pin is in the table until it ends.
func (v *PinVerdict) Accepted() bool { return len(v.Problems) == 0 }

func problemsOf(all []Problem, condition v1alpha1.ConditionType) []Problem {
	var of []Problem
	for _, p := range all {
		if p.Condition == condition {
			of = append(of, p)
		}
	}
	return of
}
