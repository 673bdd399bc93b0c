package controller

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
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

// Nobody tells us when we are allowed to read what we were not.
func TestACompileIsDoneAgainWhereSomethingMayNotBeRead(t *testing.T) {
	ref := compiler.Reference{Kind: compiler.KindSecret, Namespace: "a", Name: "tower"}
	w := newWorld()
	w.named[ref], w.versions[ref] = 1, version{resource: "7"}
	reader := &oneSecret{err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "tower", nil)}
	c := &compiling{
		world: w, fetcher: newFetcher(reader), clock: clocktesting.NewFakePassiveClock(evening), salt: []byte("salt"), options: Options{Metrics: noMetrics{}},
		compiled: func() {}, changed: func(_, _ []types.NamespacedName) {},
	}
	for _, want := range []time.Duration{retryRefused, 0} {
		if again, err := c.compile(t.Context()); again != want || err != nil {
			t.Errorf("again in %s (error %v), want %s", again, err, want)
		}
		reader.err, reader.version = nil, "7"
	}
}

func TestSooner(t *testing.T) {
	for _, tc := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {1, 0, 1}, {0, 2, 2}, {2, 1, 1}, {1, 2, 1}} {
		if got := sooner(tc.a, tc.b); got != tc.want {
			t.Errorf("sooner(%d, %d) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
