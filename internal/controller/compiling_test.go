package controller

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Of too many pins on a route others count once one is over, although nobody changes anything.
func TestACompileIsDoneAgainWhenOtherPinsAreToCount(t *testing.T) {
	now := time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)
	w := newWorld()
	route := routeNaming("", "")
	route.Spec.Chain = []v1alpha1.Backend{{Name: "tower", URL: "http://tower/v1"}}
	w.setRoute(routeKey, route)
	for i := range 33 {
		p := &storedPin{}
		p.Namespace, p.Name, p.CreationTimestamp = routeKey.Namespace, fmt.Sprintf("pin-%02d", i), metav1.NewTime(now)
		p.Spec = v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{routeKey.Name}}, Backend: "tower", Mode: v1alpha1.PinPrefer, Duration: "1h"}
		w.setPin(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, p)
	}
	c := &compiling{
		world: w, fetcher: newFetcher(nil), clock: clocktesting.NewFakePassiveClock(now), salt: []byte("salt"), options: Options{Metrics: noMetrics{}},
		compiled: func() {}, changed: func(_, _ []types.NamespacedName) {},
	}
	again, err := c.compile(t.Context())
	if want := untilEdge(now.Add(time.Hour), now); again != want || err != nil {
		t.Errorf("again in %s (error %v), want %s", again, err, want)
	}
}

func TestSooner(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {1, 0, 1}, {0, 2, 2}, {2, 1, 1}, {1, 2, 1}} {
		if got := sooner(tc.a, tc.b); got != tc.want {
			t.Errorf("sooner(%d, %d) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
