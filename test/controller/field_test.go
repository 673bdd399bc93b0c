package controller

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("In the field", func() {
	It("a rotated Secret among 300 is live in a moment, and no other is ever read", func(ctx context.Context) {
		w := newWorld(ctx)
		secrets := make([]*corev1.Secret, 300)
		for i := range secrets {
			secrets[i] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: fmt.Sprintf("secret-%03d", i)}, Data: map[string][]byte{"token": []byte("first")}}
			Expect(admin.Create(ctx, secrets[i])).To(Succeed())
		}
		w.route(ctx, "default", func(r *v1alpha1.LLMRoute) {
			r.Spec.Chain[0].Auth = &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "secret-150", Key: "token"}}
		})
		var mu sync.Mutex
		read := map[string]bool{}
		w.start(ctx, hooks{request: func(r *http.Request) {
			if dir, name := path.Split(r.URL.Path); r.Method == http.MethodGet && strings.HasSuffix(dir, "/namespaces/"+w.team+"/secrets/") {
				mu.Lock()
				defer mu.Unlock()
				read[name] = true
			}
		}})
		credential := func() string {
			e := w.entry(ctx, "default")
			if e == nil || e.Backend("tower") == nil {
				return ""
			}
			return e.Backend("tower").Credential.Value
		}
		Eventually(credential).Should(Equal("Bearer first"))
		for _, i := range []int{7, 42, 150, 299} {
			secrets[i].Data["token"] = []byte("second")
			Expect(admin.Update(ctx, secrets[i])).To(Succeed())
		}
		start := time.Now()
		Eventually(credential).Should(Equal("Bearer second"))
		AddReportEntry("from the rotation to the published table", time.Since(start).String())
		mu.Lock()
		defer mu.Unlock()
		Expect(slices.Collect(maps.Keys(read))).To(Equal([]string{"secret-150"}))
	})

	It("a route that does not fit is left out alone, told, and its last version is served on", func(ctx context.Context) {
		w := newWorld(ctx)
		names := inOneShard(w.team, 5)
		for i, name := range names[:3] {
			w.route(ctx, name, noise(uint64(i), 4))
		}
		grows := w.route(ctx, names[3])
		w.start(ctx, hooks{})
		for _, name := range names[:4] {
			Eventually(func() *table.Route { return w.entry(ctx, name) }).ShouldNot(BeNil())
		}
		p := &proxy{w: w, name: "proxy-1"}
		p.report(ctx)
		Eventually(routeState(ctx, grows)).Should(HaveSuffix("ready=True/Ready"))
		edit(ctx, grows, func() { noise(3, 8)(grows) })
		Eventually(routeState(ctx, grows)).Should(Equal("Healthy serving=tower chain=tower,hosted proxies=0/1 ready=False/TableFull"))
		Expect(condition(grows.Status.Conditions, v1alpha1.ConditionProgrammed)).To(Equal("False/TableFull"))
		Expect(condition(grows.Status.Conditions, v1alpha1.ConditionBackendsAvailable)).To(Equal("True/BackendsAvailable"))
		Expect(meta.FindStatusCondition(grows.Status.Conditions, "Accepted").Message).To(ContainSubstring("its last published version is served on"))
		Expect(w.entry(ctx, grows.Name).Generation).To(BeEquivalentTo(1))

		other := w.route(ctx, names[4]) // the same shard goes on
		Eventually(func() *table.Route { return w.entry(ctx, other.Name) }).ShouldNot(BeNil())
		edit(ctx, grows, func() { grows.Spec.Chain = grows.Spec.Chain[:1] })
		Eventually(func() int64 { return w.entry(ctx, grows.Name).Generation }).Should(BeEquivalentTo(3))
		p.report(ctx)
		Eventually(routeState(ctx, grows)).Should(HaveSuffix("proxies=1/1 ready=True/Ready"))
	})

	It("status is not written while nothing happens, however much traffic there is", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		pin := w.pin(ctx, "game-night", "hosted")
		m := w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).Should(HaveField("Pins", Not(BeEmpty())))
		p := &proxy{w: w, name: "proxy-1"}
		p.report(ctx)
		Eventually(routeState(ctx, r)).Should(HaveSuffix("ready=True/Ready"))
		settled := m.settled()
		routeVersion, pinVersion := get(ctx, r).ResourceVersion, get(ctx, pin).ResourceVersion
		tower := string(w.entry(ctx, "default").Backend("tower").ID)
		for i := range 100 { // what traffic moves in reports: counts that come and go below the threshold, and the time
			p.breakers = []v1alpha1.BreakerReport{{ID: tower, State: v1alpha1.BackendClosed, Failures: int32(i % 4), Saturations: int32(i % 2), LastGood: int64(i / 4)}}
			p.report(ctx)
		}
		Consistently(m.writes.Load, "1500ms").Should(Equal(settled))
		Expect(get(ctx, r).ResourceVersion).To(Equal(routeVersion))
		Expect(get(ctx, pin).ResourceVersion).To(Equal(pinVersion))
	})

	It("a status that somebody writes by hand does not stay", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		pin := w.pin(ctx, "absent", "no-such-backend")
		w.start(ctx, hooks{})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		p := &proxy{w: w, name: "proxy-1"}
		p.report(ctx)
		const well = "Healthy serving=tower chain=tower,hosted proxies=1/1 ready=True/Ready"
		Eventually(routeState(ctx, r)).Should(Equal(well))
		Eventually(func() v1alpha1.PinPhase { return get(ctx, pin).Status.Phase }).Should(Equal(v1alpha1.PinIneffective))
		before := *get(ctx, r).Status.DeepCopy()
		future := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
		r.Status.State, r.Status.Serving, r.Status.Proxies, r.Status.Chain, r.Status.RetryAt = v1alpha1.RouteDown, "ghost", "9/9", "ghost!", &future
		r.Status.Backends = []v1alpha1.BackendStatus{{Name: "ghost", State: v1alpha1.BackendOpen, RetryAt: &future}}
		r.Status.Conditions[0].Status, r.Status.Conditions[0].LastTransitionTime = metav1.ConditionFalse, future
		Expect(admin.Status().Update(ctx, r)).To(Succeed())
		pin.Status.Phase, pin.Status.Conditions = v1alpha1.PinExpired, nil
		Expect(admin.Status().Update(ctx, pin)).To(Succeed())
		Eventually(routeState(ctx, r)).Should(Equal(well))
		Expect(r.Status.Backends).To(Equal(before.Backends))
		Expect(r.Status.RetryAt).To(BeNil())
		for _, c := range r.Status.Conditions {
			Expect(c.Status).To(Equal(metav1.ConditionTrue), c.Type)
			Expect(c.LastTransitionTime.Time).To(BeTemporally("<", future.Time), c.Type)
		}
		Eventually(func() v1alpha1.PinPhase { return get(ctx, pin).Status.Phase }).Should(Equal(v1alpha1.PinIneffective))
		Expect(condition(pin.Status.Conditions, v1alpha1.ConditionActive)).To(Equal("False/NoSuchBackend"))
	})

	It("five rolls of three proxies leave nothing of those that went", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		w.start(ctx, hooks{options: func(o *controller.Options) { o.ReportTimeout, o.ReportRetention = 2*time.Second, 4*time.Second }})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		var live []*proxy
		for roll := range 6 {
			was := live
			live = nil
			for i := range 3 {
				live = append(live, &proxy{w: w, name: fmt.Sprintf("proxy-%d-%d", roll, i)})
				live[i].report(ctx)
			}
			for i, p := range was {
				if p.draining = i > 0; p.draining { // the first one's node is lost
					p.report(ctx)
					Expect(admin.Delete(ctx, &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: p.name}})).To(Succeed())
				}
			}
		}
		renew := func() {
			for _, p := range live {
				p.report(ctx)
			}
		}
		Eventually(func() string { renew(); return routeState(ctx, r)() }, "30s", "500ms").Should(HaveSuffix("proxies=3/3 ready=True/Ready"))
		Eventually(func() int {
			renew()
			list := &v1alpha1.ProxyReportList{}
			Expect(admin.List(ctx, list, client.InNamespace(w.system))).To(Succeed())
			return len(list.Items)
		}, "30s", "500ms").Should(Equal(3))
	})
})

// inOneShard returns names of routes of a namespace that fall into one shard.
func inOneShard(namespace string, n int) []string {
	byShard := map[int][]string{}
	for i := 0; ; i++ {
		name := fmt.Sprintf("r-%d", i)
		shard := table.ShardOf(namespace + "/" + name)
		byShard[shard] = append(byShard[shard], name)
		if len(byShard[shard]) == n {
			return byShard[shard]
		}
	}
}

// noise gives a route so many backends with headers that do not compress.
func noise(seed uint64, backends int) func(*v1alpha1.LLMRoute) {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(r *v1alpha1.LLMRoute) {
		r.Spec.Chain = nil
		for n := range backends {
			b := v1alpha1.Backend{Name: fmt.Sprintf("b-%d", n), URL: "http://h/v1"}
			for i := range 16 {
				var value strings.Builder
				for value.Len() < 4096 {
					value.WriteByte(byte('!' + random.IntN(94)))
				}
				b.Headers = append(b.Headers, v1alpha1.Header{Name: fmt.Sprintf("x-%d", i), Value: value.String()})
			}
			r.Spec.Chain = append(r.Spec.Chain, b)
		}
	}
}
