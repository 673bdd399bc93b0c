package compiler

import (
	"fmt"
	"testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Any number of routes may claim one model, by mistake or on purpose: that must not hold up the compiles of everybody.
func TestTheCostOfManyClaimsToOneModelGrowsWithTheirNumber(t *testing.T) {
	cost := func(routes int) float64 {
		s := emptySnapshot()
		for i := range routes {
			s.add(newRoute(fmt.Sprintf("r%03d", i), func(r *v1alpha1.LLMRoute) { r.Spec.Model = "m" }))
		}
		earlier := Compile(s.Snapshot, goldenNow)
		return testing.AllocsPerRun(1, func() {
			edited := s.Snapshot
			edited.Routes = append([]*v1alpha1.LLMRoute{s.Routes[0].DeepCopy()}, s.Routes[1:]...)
			Recompile(&earlier, edited, goldenNow)
		})
	}
	if few, many := cost(50), cost(200); many > 8*few {
		t.Errorf("an edit among 50 routes that claim one model allocates %.0f times, and one among 200 %.0f times", few, many)
	}
}
