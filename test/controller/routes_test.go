package controller

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("Status of a route", func() {
	It("follows a backend from saturation to recovery, and tells each once", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		m := w.start(ctx, hooks{})
		Eventually(routeState(ctx, r)).Should(Equal("Unknown serving= chain=tower,hosted proxies=0/0 ready=Unknown/NoProxies"))
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		tower := w.entry(ctx, "default").Backend("tower").ID
		one, two := &proxy{w: w, name: "proxy-1"}, &proxy{w: w, name: "proxy-2"}
		one.report(ctx)
		two.report(ctx)
		Eventually(routeState(ctx, r)).Should(Equal("Healthy serving=tower chain=tower,hosted proxies=2/2 ready=True/Ready"))

		one.breakers = []v1alpha1.BreakerReport{opened(tower, v1alpha1.BackendSaturated, 1, 15*time.Minute)}
		start := time.Now()
		one.report(ctx)
		Eventually(routeState(ctx, r)).Should(Equal("Saturated serving=hosted chain=tower!,hosted proxies=2/2 ready=True/Ready"))
		AddReportEntry("from the report to the status", time.Since(start).String())
		s := get(ctx, r).Status
		Expect(s.Backends[0].Proxies).To(Equal("1/2"))
		Expect(s.Reason).To(Equal("Saturated"))
		Expect(s.RetryAt.Time).To(BeTemporally("~", time.Now().Add(15*time.Minute), time.Minute))
		Eventually(notes(ctx, r)).Should(ConsistOf(And(
			HavePrefix("BackendSaturated: tower went quiet (2 in a row); hosted serves until "), HaveSuffix("Z"))))

		two.breakers = one.breakers // it adopts
		two.report(ctx)
		Eventually(func() string { return get(ctx, r).Status.Backends[0].Proxies }).Should(Equal("2/2"))
		retryAt, written := get(ctx, r).Status.RetryAt, m.writes.Load()
		for range 3 { // nothing happens but time: remaining shrinks as renewTime moves on
			one.breakers[0].Remaining = v1alpha1.FormatDuration(time.Until(retryAt.Time))
			one.report(ctx)
		}
		Consistently(m.writes.Load, "1500ms").Should(Equal(written))
		Expect(get(ctx, r).Status.RetryAt.Time).To(BeTemporally("==", retryAt.Time))

		closed := []v1alpha1.BreakerReport{{ID: string(tower), State: v1alpha1.BackendClosed, Epoch: 2}}
		one.breakers = closed
		one.report(ctx)
		Eventually(routeState(ctx, r)).Should(Equal("Healthy serving=tower chain=tower,hosted proxies=2/2 ready=True/Ready"))
		Eventually(notes(ctx, r)).Should(ContainElement("BackendRecovered: tower is well again; tower serves"))
		Expect(notes(ctx, r)()).To(HaveLen(2))
	})

	It("is written once and then not, whatever a restart or an untouched edit brings", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		r := w.route(ctx, "second")
		first := w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "second") }).ShouldNot(BeNil())
		(&proxy{w: w, name: "proxy-1"}).report(ctx)
		Eventually(routeState(ctx, r)).Should(HaveSuffix("ready=True/Ready"))
		settled := first.settled()
		Consistently(first.writes.Load, "1500ms").Should(Equal(settled))
		first.stop()
		version := get(ctx, r).ResourceVersion
		second := w.start(ctx, hooks{})
		Consistently(second.writes.Load, "2s").Should(BeZero(), "a restart must not write what is already so")
		Expect(get(ctx, r).ResourceVersion).To(Equal(version))

		edit(ctx, r, func() { r.Annotations = map[string]string{"touched": "yes"} })
		Consistently(second.writes.Load, "1s").Should(BeZero())
	})

	It("carries observedGeneration in each condition, and flips lastTransitionTime only with a status", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		p := &proxy{w: w, name: "proxy-1"}
		p.report(ctx)
		Eventually(routeState(ctx, r)).Should(HaveSuffix("ready=True/Ready"))
		accepted := meta.FindStatusCondition(get(ctx, r).Status.Conditions, string(v1alpha1.ConditionAccepted)).LastTransitionTime
		edit(ctx, r, func() { r.Spec.Queue.MaxWait = "31s" })
		Eventually(routeState(ctx, r)).Should(And(ContainSubstring("proxies=0/1"), HaveSuffix("ready=False/Pending")))
		Eventually(func() int64 { return w.entry(ctx, "default").Generation }).Should(Equal(r.Generation))
		p.report(ctx)
		Eventually(routeState(ctx, r)).Should(And(ContainSubstring("proxies=1/1"), HaveSuffix("ready=True/Ready")))
		for _, c := range get(ctx, r).Status.Conditions {
			Expect(c.ObservedGeneration).To(Equal(r.Generation), c.Type)
		}
		Expect(meta.FindStatusCondition(r.Status.Conditions, string(v1alpha1.ConditionAccepted)).LastTransitionTime).To(Equal(accepted))
	})

	It("survives conflicts and keeps a condition that somebody adds in between", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		var met atomic.Int32
		m := w.start(ctx, hooks{beforeStatus: func(o client.Object) error {
			switch met.Add(1) {
			case 1: // another actor is faster
				other := get(ctx, &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: o.GetName()}})
				meta.SetStatusCondition(&other.Status.Conditions, metav1.Condition{Type: "Foo", Status: metav1.ConditionTrue, Reason: "Bar"})
				return admin.Status().Update(ctx, other)
			case 2: // and the API server says so once more
				return apierrors.NewConflict(v1alpha1.Resource("llmroutes"), o.GetName(), nil)
			}
			return nil
		}})
		Eventually(func() string { return condition(get(ctx, r).Status.Conditions, v1alpha1.ConditionAccepted) }).Should(Equal("True/Accepted"))
		Expect(condition(r.Status.Conditions, "Foo")).To(Equal("True/Bar"))
		settled := m.settled()
		Consistently(m.writes.Load, "1500ms").Should(Equal(settled))
		Expect(condition(get(ctx, r).Status.Conditions, "Foo")).To(Equal("True/Bar"))
	})

	It("lets no bad object stop the good ones", func(ctx context.Context) {
		w := newWorld(ctx)
		for _, name := range []string{"a", "b", "c"} {
			w.route(ctx, name)
		}
		half := w.route(ctx, "half", func(r *v1alpha1.LLMRoute) {
			r.Spec.Chain[0].Auth = &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "absent", Key: "token"}}
		})
		url := "http://tower.example/v1"
		odd := w.stored(ctx, map[string]map[string]any{
			"no-list":   {"chain": "not a list", "retry": map[string]any{"attempts": "many"}},
			"no-spec":   nil,
			"no-name":   {"chain": []any{map[string]any{"url": url}}},
			"long-name": {"chain": []any{map[string]any{"name": strings.Repeat("x", 80), "url": url}}},
			"two-names": {"chain": []any{map[string]any{"name": "x", "url": url}, map[string]any{"name": "x", "url": url}}},
			"no-url":    {"chain": []any{map[string]any{"name": "x", "url": "http://[::1"}}},
			"no-time":   {"chain": []any{map[string]any{"name": "x", "url": url}}, "timeouts": map[string]any{"request": "abc"}},
		})
		m := w.start(ctx, hooks{})
		for _, name := range []string{"a", "b", "c", "half"} {
			Eventually(func() *table.Route { return w.entry(ctx, name) }).ShouldNot(BeNil(), name)
		}
		(&proxy{w: w, name: "proxy-1"}).report(ctx)
		Eventually(routeState(ctx, half)).Should(Equal("Healthy serving=hosted chain=tower!,hosted proxies=1/1 ready=True/Ready"))
		refs := meta.FindStatusCondition(half.Status.Conditions, string(v1alpha1.ConditionResolvedRefs))
		Expect(refs.Reason).To(Equal("SecretNotFound"))
		Expect(refs.Message).To(And(ContainSubstring("PartiallyResolved: 1 of 2"), ContainSubstring("absent")))
		Expect(half.Status.Backends[0].State).To(Equal(v1alpha1.BackendExcluded))
		for name, object := range odd {
			Eventually(func() any {
				told, _, err := unstructured.NestedSlice(get(ctx, object).Object, "status", "conditions")
				Expect(err).NotTo(HaveOccurred())
				return told
			}).Should(ContainElement(And(HaveKeyWithValue("type", "Accepted"), HaveKeyWithValue("status", "False"))), name)
		}
		settled := m.settled()
		Consistently(m.writes.Load, "2s").Should(Equal(settled), "a status is refused again and again")
		good := &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: "a"}}
		edit(ctx, good, func() { good.Spec.Chain[0].Model = "changed" })
		Eventually(func() string { return w.entry(ctx, "a").Chain[0].Model }).Should(Equal("changed"))
	})

	It("of one that is made again at once speaks of the new one", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		p := &proxy{w: w, name: "proxy-1"}
		p.report(ctx)
		Eventually(routeState(ctx, r)).Should(HaveSuffix("ready=True/Ready"))
		for range 20 { // some of these fall into one compile, most into one second
			was := r.UID
			Expect(admin.Delete(ctx, r)).To(Succeed())
			r = w.route(ctx, "default")
			Eventually(func() string { return w.entryUID(ctx, "default") }).Should(Equal(string(r.UID)))
			Expect(r.UID).NotTo(Equal(was))
		}
		Eventually(routeState(ctx, r)).Should(And(ContainSubstring("proxies=0/1"), HaveSuffix("ready=False/Pending")))
		Consistently(routeState(ctx, r), "1500ms").Should(HaveSuffix("ready=False/Pending"), "the proxy still has the table of a route before")
		p.report(ctx)
		Eventually(routeState(ctx, r)).Should(HaveSuffix("ready=True/Ready"))
	})

	It("tells of each backend that opens in one moment", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		p := &proxy{w: w, name: "proxy-1"}
		for _, b := range w.entry(ctx, "default").Chain {
			p.breakers = append(p.breakers, opened(b.ID, v1alpha1.BackendSaturated, 1, 15*time.Minute))
		}
		p.report(ctx)
		Eventually(notes(ctx, r)).Should(ConsistOf(
			HavePrefix("BackendSaturated: tower went quiet"), HavePrefix("BackendSaturated: hosted went quiet"), HavePrefix("AllBackendsOpen: ")))
		for i := range p.breakers {
			p.breakers[i] = v1alpha1.BreakerReport{ID: p.breakers[i].ID, State: v1alpha1.BackendClosed, Epoch: 2}
		}
		p.report(ctx)
		Eventually(notes(ctx, r)).Should(ContainElements(
			"BackendRecovered: tower is well again; tower serves", "BackendRecovered: hosted is well again; tower serves"))
	})

	It("hands a model to the next claimant when the winner goes", func(ctx context.Context) {
		w := newWorld(ctx)
		claim := func(r *v1alpha1.LLMRoute) { r.Spec.Model = "shared" }
		older := w.route(ctx, "b-older", claim)
		Eventually(func() bool { return time.Since(older.CreationTimestamp.Time) > time.Second }).Should(BeTrue()) // whole seconds
		younger := w.route(ctx, "a-younger", claim)
		w.start(ctx, hooks{})
		accepted := func(r *v1alpha1.LLMRoute) func() string {
			return func() string { return condition(get(ctx, r).Status.Conditions, v1alpha1.ConditionAccepted) }
		}
		Eventually(accepted(younger)).Should(Equal("False/ModelConflict"))
		Eventually(accepted(older)).Should(Equal("True/Accepted"))
		Expect(meta.FindStatusCondition(younger.Status.Conditions, string(v1alpha1.ConditionAccepted)).Message).To(ContainSubstring(w.team + "/b-older"))
		Eventually(notes(ctx, younger)).Should(ContainElement(HavePrefix("ModelConflict: ")))
		Expect(admin.Delete(ctx, older)).To(Succeed())
		Eventually(accepted(younger)).Should(Equal("True/Accepted"))
		Eventually(func() *table.Route { return w.entry(ctx, "a-younger") }).ShouldNot(BeNil())
	})
})

var _ = Describe("Reports", func() {
	It("stop counting when they are not renewed, and are deleted later", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{options: func(o *controller.Options) { o.ReportTimeout, o.ReportRetention = 3*time.Second, 6*time.Second }})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		stays, goes := &proxy{w: w, name: "stays"}, &proxy{w: w, name: "goes"}
		goes.report(ctx)
		stays.report(ctx)
		Eventually(routeState(ctx, r)).Should(ContainSubstring("proxies=2/2"))
		alive := func() string { stays.report(ctx); return routeState(ctx, r)() }
		Eventually(alive, "30s", "500ms").Should(ContainSubstring("proxies=1/1"))
		names := func() []string {
			stays.report(ctx)
			list := &v1alpha1.ProxyReportList{}
			Expect(admin.List(ctx, list, client.InNamespace(w.system))).To(Succeed())
			var names []string
			for _, item := range list.Items {
				names = append(names, item.Name)
			}
			return names
		}
		Eventually(names, "30s", "500ms").Should(ConsistOf("stays"))
		// Scaled to nothing: nobody serves, and nothing is claimed to be well.
		Eventually(routeState(ctx, r)).Should(And(HavePrefix("Unknown"), HaveSuffix("ready=Unknown/NoProxies")))
	})

	It("of a draining proxy do not count for Programmed", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{})
		leaving := &proxy{w: w, name: "leaving"}
		leaving.report(ctx) // it serves nothing of ours yet
		stays := &proxy{w: w, name: "stays"}
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		stays.report(ctx)
		leaving.draining = true
		leaving.report(ctx)
		Eventually(routeState(ctx, r)).Should(Equal("Healthy serving=tower chain=tower,hosted proxies=1/1 ready=True/Ready"))
	})
})

// settled waits until no status was written for a while and returns how many were.
func (r *running) settled() int32 {
	last, since := r.writes.Load(), time.Now()
	Eventually(func() time.Duration {
		if n := r.writes.Load(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", 1200*time.Millisecond))
	return last
}
