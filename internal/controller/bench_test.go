package controller

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/status"
)

// tenThousand is a world of 10,000 routes of three backends in 100 namespaces.
func tenThousand() *world {
	w := newWorld()
	for i := range 10_000 {
		r := &storedRoute{}
		r.Namespace, r.Name, r.Generation = fmt.Sprintf("team-%02d", i%100), fmt.Sprintf("route-%04d", i), 1
		for b := range 3 {
			r.Spec.Chain = append(r.Spec.Chain, v1alpha1.Backend{Name: fmt.Sprintf("backend-%d", b), URL: fmt.Sprintf("http://host-%d-%d/v1", i, b)})
		}
		r.Default()
		w.setRoute(types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, r)
	}
	return w
}

// BenchmarkOneEditAmongTenThousandRoutes is what an edit costs from the informer's event to the list of what to write.
func BenchmarkOneEditAmongTenThousandRoutes(b *testing.B) {
	w := tenThousand()
	c := &compiling{world: w}
	snapshot, _ := w.snapshot()
	last := c.build(snapshot, time.Now())
	c.latest.Store(last)
	key := types.NamespacedName{Namespace: "team-07", Name: "route-0007"}
	b.ResetTimer()
	for i := range b.N {
		edited := w.route(key).DeepCopyObject().(*storedRoute)
		edited.Generation++
		edited.Spec.Chain[0].Model = fmt.Sprintf("m%d", i)
		w.setRoute(key, edited)
		snapshot, _ := w.snapshot()
		next := c.build(snapshot, time.Now())
		if routes, _ := next.changedFrom(last); len(routes) != 1 {
			b.Fatalf("%d routes are concerned, want 1", len(routes))
		}
		last = next
		c.latest.Store(last)
	}
}

// BenchmarkFoldTwoHundredProxies is what one changed report costs.
func BenchmarkFoldTwoHundredProxies(b *testing.B) {
	var reports []status.Report
	for p := range 200 {
		s := &v1alpha1.ProxyReportStatus{Schema: v1alpha1.ReportSchema}
		for i := range 32 {
			s.Tables = append(s.Tables, v1alpha1.TableRevision{Shard: int32(i), Revision: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"})
		}
		for i := range 50 {
			s.Breakers = append(s.Breakers, v1alpha1.BreakerReport{ID: fmt.Sprintf("id-%d", i), State: v1alpha1.BackendOpen, Remaining: "15m", Epoch: int64(p % 7)})
		}
		reports = append(reports, status.Report{Pod: fmt.Sprintf("proxy-%03d", p), Status: s})
	}
	last := status.NewFleet(reports)
	b.ResetTimer()
	for range b.N {
		next := status.NewFleet(reports)
		next.ChangeFrom(last)
		last = next
	}
}
