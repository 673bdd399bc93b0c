package compiler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// largeSnapshot is the scale to plan for: 10,000 routes of three backends in 100 namespaces, one of which every route of
// the namespace names, and 1,000 pins.
func largeSnapshot() Snapshot {
	s := emptySnapshot()
	created := metav1.NewTime(goldenNow.Add(-time.Hour))
	for n := range 100 {
		namespace := fmt.Sprintf("team-%02d", n)
		s.Secrets[types.NamespacedName{Namespace: namespace, Name: "hosted"}] = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hosted"},
			Data:       map[string][]byte{"api-key": []byte("sk-0123456789abcdef0123456789abcdef\n")},
		}
		for i := range 100 {
			name := fmt.Sprintf("route-%03d", i)
			auth := &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "hosted", Key: "api-key"}}
			route := &v1alpha1.LLMRoute{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1, CreationTimestamp: created},
				Spec: v1alpha1.LLMRouteSpec{Chain: []v1alpha1.Backend{
					{Name: "tower", URL: fmt.Sprintf("http://tower-%d.%s.example:11434/v1", i, namespace), Model: "m", MaxInFlight: 1},
					{Name: "pool", URL: fmt.Sprintf("http://pool-%d.%s.example:8000/v1", i, namespace), Model: "m"},
					{Name: "hosted", URL: "https://api.example.com/v1", Model: "hosted", Auth: auth},
				}},
			}
			route.Default()
			s.Routes = append(s.Routes, route)
		}
		for i := range 10 {
			s.Pins = append(s.Pins, &v1alpha1.BackendPin{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("pin-%d", i), CreationTimestamp: created},
				Spec: v1alpha1.BackendPinSpec{
					Routes:   v1alpha1.PinRoutes{Names: []string{fmt.Sprintf("route-%03d", i)}},
					Backend:  "hosted",
					Mode:     v1alpha1.PinPrefer,
					Duration: "4h",
				},
			})
		}
	}
	return s.Snapshot
}

func BenchmarkCompile10000(b *testing.B) {
	s := largeSnapshot()
	b.ReportAllocs()
	for b.Loop() {
		if r := Compile(s, goldenNow); len(r.Table().Models()) != 10_000 {
			b.Fatal("not all routes are in the table")
		}
	}
}

// BenchmarkOneEdit10000 is what an edit of one route costs: the next compile, and the shard that differs.
func BenchmarkOneEdit10000(b *testing.B) {
	s := largeSnapshot()
	last := Compile(s, goldenNow)
	published := last.Shards(nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		edited := s.Routes[0].DeepCopy()
		edited.Generation = int64(i + 2)
		s.Routes[0] = edited
		last = Recompile(&last, s, goldenNow)

		next := last.Shards(published)
		if order := WriteOrder(published, next); len(order) != 1 {
			b.Fatalf("%d shards changed, want 1", len(order))
		}
		published = next
	}
}
