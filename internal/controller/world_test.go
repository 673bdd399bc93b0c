package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

var routeKey = types.NamespacedName{Namespace: "ns", Name: "default"}

// routeNaming is a route of generation 1 that takes its credential from a Secret and its backend from a Service.
func routeNaming(secret, service string) *storedRoute {
	r := &storedRoute{}
	r.Namespace, r.Name, r.Generation, r.ResourceVersion = routeKey.Namespace, routeKey.Name, 1, "1"
	r.Spec.Chain = []v1alpha1.Backend{{
		Name: "tower", Auth: &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: secret, Key: "token"}},
		Service: &v1alpha1.ServiceRef{Name: service},
	}}
	return r
}

// raised says whether a signal was raised, and lowers it.
func raised(s signal) bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

func metadata(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

func TestOnlyWhatACompileReadsMakesTheWorldDirty(t *testing.T) {
	in := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	service := func(port int32) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}}}
	}
	cases := map[string]struct {
		event func(w *world)
		want  bool
	}{
		"a status written": {func(w *world) {
			r := routeNaming("tower", "tower")
			r.ResourceVersion, r.Status.Model = "2", "m"
			w.setRoute(routeKey, r)
		}, false},
		"a spec edited": {func(w *world) {
			r := routeNaming("tower", "tower")
			r.Generation = 2
			w.setRoute(routeKey, r)
		}, true},
		"a label set, which a pin may select": {func(w *world) {
			r := routeNaming("tower", "tower")
			r.Labels = map[string]string{"a": "b"}
			w.setRoute(routeKey, r)
		}, true},
		"a route recreated within one event": {func(w *world) {
			r := routeNaming("tower", "tower")
			r.UID = "other"
			w.setRoute(routeKey, r)
		}, true},
		"a route deleted":           {func(w *world) { w.setRoute(routeKey, nil) }, true},
		"a named Secret rotated":    {func(w *world) { w.setVersion(compiler.KindSecret)(in("tower"), metadata("8")) }, true},
		"a named Secret seen again": {func(w *world) { w.setVersion(compiler.KindSecret)(in("tower"), metadata("7")) }, false},
		"a named Secret recreated, in an etcd that counts anew": {func(w *world) {
			again := metadata("7")
			again.UID = "other"
			w.setVersion(compiler.KindSecret)(in("tower"), again)
		}, true},
		"a named Secret deleted":         {func(w *world) { w.setVersion(compiler.KindSecret)(in("tower"), nil) }, true},
		"a Secret that nobody names":     {func(w *world) { w.setVersion(compiler.KindSecret)(in("other"), metadata("8")) }, false},
		"a ConfigMap of a Secret's name": {func(w *world) { w.setVersion(compiler.KindConfigMap)(in("tower"), metadata("8")) }, false},
		"a port of a named Service":      {func(w *world) { w.setService(in("tower"), service(81)) }, true},
		"a named Service seen again":     {func(w *world) { w.setService(in("tower"), service(80)) }, false},
		"a Service that nobody names":    {func(w *world) { w.setService(in("other"), service(80)) }, false},
		"a Secret that nobody names any more": {func(w *world) {
			r := routeNaming("another", "tower")
			r.Generation = 2
			w.setRoute(routeKey, r)
			raised(w.dirty)
			w.setVersion(compiler.KindSecret)(in("tower"), metadata("8"))
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.setRoute(routeKey, routeNaming("tower", "tower"))
			w.setVersion(compiler.KindSecret)(in("tower"), metadata("7"))
			w.setService(in("tower"), service(80))
			raised(w.dirty)
			tc.event(w)
			if got := raised(w.dirty); got != tc.want {
				t.Errorf("dirty = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestSnapshotHoldsWhatRoutesName(t *testing.T) {
	w := newWorld()
	w.setRoute(routeKey, routeNaming("tower", "tower"))
	odd := &storedRoute{fault: "spec.chain is odd"}
	oddKey := types.NamespacedName{Namespace: "ns", Name: "odd"}
	odd.Generation = 4
	w.setRoute(oddKey, odd)
	for _, name := range []string{"tower", "other"} {
		key := types.NamespacedName{Namespace: "ns", Name: name}
		w.setService(key, &corev1.Service{})
		w.setVersion(compiler.KindSecret)(key, metadata("7"))
	}
	s, wanted := w.snapshot()
	if len(s.Routes) != 1 || len(s.Services) != 1 {
		t.Errorf("%d routes and %d services, want one of each", len(s.Routes), len(s.Services))
	}
	if diff := cmp.Diff([]compiler.Undecodable{{Kind: compiler.KindRoute, Key: oddKey, Generation: 4, Detail: "spec.chain is odd"}}, s.Undecodable); diff != "" {
		t.Errorf("undecodable (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[compiler.Reference]version{{Kind: compiler.KindSecret, Namespace: "ns", Name: "tower"}: {resource: "7"}}, wanted, cmp.AllowUnexported(version{})); diff != "" {
		t.Errorf("wanted (-want +got):\n%s", diff)
	}
}

// A compile takes over what it knows of an object by its pointer, and each write of status brings another one.
func TestAnObjectOfWhichOnlyTheStatusChangesIsTheSameToACompile(t *testing.T) {
	w := newWorld()
	w.setRoute(routeKey, routeNaming("tower", "tower"))
	first, _ := w.snapshot()
	shown := routeNaming("tower", "tower")
	shown.ResourceVersion, shown.Status.Model = "2", "m"
	w.setRoute(routeKey, shown)
	if second, _ := w.snapshot(); second.Routes[0] != first.Routes[0] {
		t.Error("a status that was written is another object to a compile")
	}
	if w.route(routeKey) != shown {
		t.Error("the world does not have the latest object")
	}
	// A field that a new CRD takes away goes without another generation.
	pruned := routeNaming("tower", "other")
	w.setRoute(routeKey, pruned)
	if third, _ := w.snapshot(); third.Routes[0] != &pruned.LLMRoute {
		t.Error("another spec is the same object to a compile")
	}
}
