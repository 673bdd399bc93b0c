package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// evening is when the compiles of these tests are.
var evening = time.Date(2026, 8, 13, 21, 0, 0, 0, time.UTC)

// twoTeams is a world of the routes a/default and b/default, and the pins a/night, by label, and a/late, by name.
func twoTeams() *world {
	w := newWorld()
	for _, team := range []string{"a", "b"} {
		r := &storedRoute{}
		r.Namespace, r.Name, r.UID, r.Generation, r.Labels = team, "default", types.UID(team), 1, map[string]string{"tier": "fast"}
		r.Spec.Chain = []v1alpha1.Backend{{Name: "tower", URL: "http://tower/v1"}, {Name: "hosted", URL: "http://hosted/v1"}}
		w.setRoute(keyOf(r), r)
	}
	setPin(w, "night", func(p *storedPin) {
		p.Spec.Routes.Selector = &v1alpha1.RouteSelector{MatchLabels: map[string]v1alpha1.LabelValue{"tier": "fast"}}
	})
	setPin(w, "late", func(p *storedPin) { p.Spec.Routes.Names = []string{"default"} })
	return w
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func setPin(w *world, name string, change func(*storedPin)) {
	p := &storedPin{}
	p.Namespace, p.Name, p.UID, p.Generation, p.CreationTimestamp = "a", name, types.UID(name), 1, metav1.NewTime(evening)
	p.Spec = v1alpha1.BackendPinSpec{Backend: "hosted", Mode: v1alpha1.PinPrefer, Duration: "4h"}
	change(p)
	w.setPin(keyOf(p), p)
}

// changeRoute puts a copy of a route into the world that an edit has changed.
func changeRoute(w *world, key types.NamespacedName, change func(*storedRoute)) {
	r := w.route(key).DeepCopyObject().(*storedRoute)
	change(r)
	w.setRoute(key, r)
}

// Who is looked at again after a change: nobody whose status could be another one may be left out, and nobody else needs to be.
func TestAChangeConcernsThoseWhoseStatusMayDiffer(t *testing.T) {
	a, night, late := types.NamespacedName{Namespace: "a", Name: "default"}, types.NamespacedName{Namespace: "a", Name: "night"}, types.NamespacedName{Namespace: "a", Name: "late"}
	cases := map[string]struct {
		change               func(*world)
		wantRoutes, wantPins []types.NamespacedName
	}{
		"nothing": {func(*world) {}, nil, nil},
		"an edit that changes nothing but the generation": {func(w *world) {
			changeRoute(w, a, func(r *storedRoute) { r.Generation++ })
		}, []types.NamespacedName{a}, []types.NamespacedName{late, night}},
		"a route made again under its name": {func(w *world) {
			changeRoute(w, a, func(r *storedRoute) { r.UID = "again" })
		}, []types.NamespacedName{a}, []types.NamespacedName{late, night}},
		"a route deleted": {func(w *world) { w.setRoute(a, nil) }, nil, []types.NamespacedName{late, night}},
		"a label that a pin selects by taken away": {func(w *world) {
			changeRoute(w, a, func(r *storedRoute) { r.Labels = nil })
		}, []types.NamespacedName{a}, []types.NamespacedName{late, night}},
		"a backend that pins name taken away": {func(w *world) {
			changeRoute(w, a, func(r *storedRoute) { r.Generation, r.Spec.Chain = 2, r.Spec.Chain[:1] })
		}, []types.NamespacedName{a}, []types.NamespacedName{late, night}},
		"a pin deleted, which may have overruled another": {func(w *world) { w.setPin(late, nil) }, []types.NamespacedName{a}, []types.NamespacedName{night}},
		"a pin extended": {func(w *world) {
			setPin(w, "late", func(p *storedPin) { p.Generation, p.Spec.Routes.Names, p.Spec.Duration = 2, []string{"default"}, "5h" })
		}, []types.NamespacedName{a}, []types.NamespacedName{late, night}},
		"a pin made again under its name": {func(w *world) {
			setPin(w, "late", func(p *storedPin) { p.UID, p.Spec.Routes.Names = "again", []string{"default"} })
		}, nil, []types.NamespacedName{late}},
		"a pin on a route that is not there": {func(w *world) {
			setPin(w, "lost", func(p *storedPin) { p.Spec.Routes.Names = []string{"gone"} })
		}, nil, []types.NamespacedName{{Namespace: "a", Name: "lost"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := twoTeams()
			c := &compiling{world: w}
			before, _ := w.snapshot()
			last := c.build(before, evening)
			c.latest.Store(last)
			tc.change(w)
			after, _ := w.snapshot()
			routes, pins := c.build(after, evening).changedFrom(last)
			if diff := cmp.Diff(tc.wantRoutes, inOrder(routes)); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantPins, inOrder(pins)); diff != "" {
				t.Errorf("pins (-want +got):\n%s", diff)
			}
		})
	}
	w := twoTeams()
	all, _ := w.snapshot()
	if routes, pins := (&compiling{world: w}).build(all, evening).changedFrom(nil); len(routes) != 2 || len(pins) != 2 {
		t.Errorf("the first compile concerns %v and %v, want all", routes, pins)
	}
}

func inOrder(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
