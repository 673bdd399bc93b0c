package compiler

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

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
