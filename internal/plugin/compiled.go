package plugin

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// compile runs the manager's compiler over what the person may read. What a plan does not need is taken out of the routes
// first, so that nobody has to read Secrets to ask for one: credentials, TLS, and where a Service leads. Whether those
// resolve is in the route's status, which the manager writes.
func compile(routes []v1alpha1.LLMRoute, pins []v1alpha1.BackendPin, now time.Time) compiler.Result {
	var s compiler.Snapshot
	for i := range routes {
		s.Routes = append(s.Routes, withoutReferences(&routes[i]))
	}
	for i := range pins {
		s.Pins = append(s.Pins, &pins[i])
	}
	s.Options.MaxPin = longestPin(pins)
	return compiler.Compile(s, now)
}

// longestPin is how long a pin may last as far as can be told: the default, or what the manager has accepted.
func longestPin(pins []v1alpha1.BackendPin) time.Duration {
	longest := compiler.DefaultMaxPin
	for i := range pins {
		if s := &pins[i].Status; s.Phase != v1alpha1.PinRejected && s.StartsAt != nil && s.ExpiresAt != nil {
			longest = max(longest, s.ExpiresAt.Sub(s.StartsAt.Time))
		}
	}
	return longest
}

// rejected says whether the manager has refused a pin as it is now.
func rejected(p v1alpha1.BackendPin) bool {
	return !unseen(&p) && p.Status.Phase == v1alpha1.PinRejected
}

func withoutReferences(route *v1alpha1.LLMRoute) *v1alpha1.LLMRoute {
	r := route.DeepCopy()
	for i := range r.Spec.Chain {
		b := &r.Spec.Chain[i]
		b.Auth, b.TLS = nil, nil
		if b.Service != nil {
			b.Service, b.URL = nil, "http://"+b.Name+".invalid/v1" // nobody dials it; a name of its own keeps backends apart
		}
	}
	return r
}

// listPins returns the pins of a namespace (empty: of all), sorted by namespace, then from the oldest to the newest, which
// is the order in which they apply.
func listPins(ctx context.Context, api client.Reader, namespace string) ([]v1alpha1.BackendPin, error) {
	var list v1alpha1.BackendPinList
	if err := api.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.BackendPin) int { return comparePins(&a, &b) })
	return list.Items, nil
}
