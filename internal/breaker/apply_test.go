package breaker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// Apply looks only at what differs between two tables. Whatever tables come, it is to know the same as if it had read the last one
// whole.
func TestApplyKnowsTheWholeTableHoweverItCame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	route := func(name string) *table.Route {
		r := &table.Route{Namespace: "ns", Name: name, Model: name}
		for range random.IntN(4) {
			b := server(fmt.Sprint(random.IntN(20)))
			b.Name = fmt.Sprint("name-", random.IntN(3))
			b.Failure.Threshold = 1 + random.IntN(3)
			b.Saturation.Threshold = 1 + random.IntN(3)
			if random.IntN(3) == 0 {
				b.Group = fmt.Sprint("ns/group-", random.IntN(3))
			}
			r.Chain = append(r.Chain, b)
		}
		if random.IntN(4) == 0 {
			r.Pins = []table.Pin{{Name: "pin", Backend: "name-0"}}
		}
		return r
	}
	r := New(Options{})
	routes := map[string]*table.Route{}
	for step := range 500 {
		for range random.IntN(4) {
			name := fmt.Sprint("route-", random.IntN(12))
			routes[name] = route(name)
			if random.IntN(3) == 0 {
				delete(routes, name)
			}
		}
		next := table.New(slices.Collect(maps.Values(routes)))
		r.Apply(next)

		whole := New(Options{})
		whole.Apply(next)
		if diff := cmp.Diff(known(whole), known(r)); diff != "" {
			t.Fatalf("step %d (-want +got):\n%s", step, diff)
		}
	}
}

// known is what a registry holds of the table, by id, and the members of its groups.
func known(r *Registry) map[string]string {
	out := map[string]string{}
	for id, b := range *r.index.Load() {
		c := b.cfg
		out[string(id)] = fmt.Sprintf("%p %s %v %v %v %v %v", c.backend, c.namespace, c.names, c.threshold, c.cooldown, c.waits, c.pinned)
	}
	for name, members := range r.groups {
		ids := ""
		for _, m := range members {
			ids += " " + string(m.id)
		}
		out[name] = ids
	}
	return out
}
