package apitest

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("The table", func() {
	It("is served when all shards are read, and not before", func(ctx SpecContext) {
		p := startProxy(ctx, "proxy-1")
		publish(ctx, table.Shards-1, "m")
		Eventually(p.Ready).Should(MatchError(ContainSubstring("31 of 32 shards")))
		Expect(p.models()).To(BeEmpty())
		publish(ctx, table.Shards, "m")
		Eventually(p.Ready).Should(Succeed())
		Expect(p.models()).To(Equal([]string{"m"}))
	})

	It("is reloaded within a moment of an edit", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		p := startProxy(ctx, "proxy-1")
		Eventually(p.Ready).Should(Succeed())
		edited := tableOf("m", "another").Split()[shardOf("another")]
		data, revision, err := edited.Encode(nil)
		Expect(err).NotTo(HaveOccurred())
		began := time.Now()
		put(ctx, shardOf("another"), data)
		Eventually(p.models).Should(ContainElement("another"))
		AddReportEntry("edit to live", time.Since(began))
		Eventually(func() []v1alpha1.TableRevision { return p.report(ctx).Status.Tables }).Should(ContainElement(
			v1alpha1.TableRevision{Shard: int32(shardOf("another")), Revision: string(revision)}))
	})

	It("outlives the deletion of a shard, a damaged one and one of an unknown schema", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		p := startProxy(ctx, "proxy-1")
		Eventually(p.Ready).Should(Succeed())

		shard := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: table.ShardName(shardOf("m"))}}
		Expect(admin.Delete(ctx, shard)).To(Succeed())
		put(ctx, shardOf("m"), []byte("damaged"))
		other := (shardOf("m") + 1) % table.Shards // its event comes after those above only by luck, so it is tried alone
		marker := tableOf("m").Split()[other]
		marker.Schema = table.Schema + 1
		data, _, err := marker.Encode(nil)
		Expect(err).NotTo(HaveOccurred())
		put(ctx, other, data)
		Consistently(p.models).WithTimeout(300 * time.Millisecond).Should(Equal([]string{"m"}))
		Expect(p.Ready()).To(Succeed())

		publish(ctx, table.Shards) // the next good one is taken, an empty one too
		Eventually(p.models).Should(BeEmpty())
	})
})

var _ = Describe("Evidence", func() {
	It("travels to the other proxies, and to those that start later before they are ready", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		first, second := startProxy(ctx, "proxy-1"), startProxy(ctx, "proxy-2")
		Eventually(first.Ready).Should(Succeed())
		Eventually(second.Ready).Should(Succeed())
		began := time.Now()
		first.saturate()
		Eventually(second.tower).Should(Equal(breaker.Open))
		AddReportEntry("opening to adoption", time.Since(began))

		third := startProxy(ctx, "proxy-3")
		Eventually(third.Ready).Should(Succeed())
		Expect(third.tower()).To(Equal(breaker.Open))
		Eventually(first.live.Load).Should(BeEquivalentTo(3))
	})

	It("adds up: a slow turn here and one there open the breaker", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		first, second := startProxy(ctx, "proxy-1"), startProxy(ctx, "proxy-2")
		Eventually(first.Ready).Should(Succeed())
		Eventually(second.Ready).Should(Succeed())
		silent := func(p *proxy) {
			permit, ok := p.breakers.Admit(tower, endpoint, breaker.Normal)
			Expect(ok).To(BeTrue())
			permit.Done(breaker.Result{Kind: breaker.Silent})
		}
		silent(first)
		Eventually(func() int { return len(first.report(ctx).Status.Breakers) }).Should(Equal(1))
		// Whichever comes first at the second, the report or its own slow turn: together they are two.
		silent(second)
		Eventually(second.tower).Should(Equal(breaker.Open))
		Eventually(first.tower).Should(Equal(breaker.Open))
	})

	It("does not depend on the wall clocks of the proxies", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		skews := map[string]time.Duration{"proxy-ahead": 5 * time.Minute, "proxy-behind": -5 * time.Minute, "proxy-right": 0}
		fleet := map[string]*proxy{}
		for name, by := range skews {
			fleet[name] = startSkewed(ctx, name, by)
		}
		for _, p := range fleet {
			Eventually(p.Ready).Should(Succeed())
			Eventually(p.live.Load).Should(BeEquivalentTo(3))
		}
		opened := time.Now()
		fleet["proxy-ahead"].saturate()
		for name, by := range skews {
			Eventually(fleet[name].tower).Should(Equal(breaker.Open), name)
			Expect(fleet[name].breakers.View(tower, endpoint).Remaining).To(BeNumerically("~", 15*time.Minute, time.Minute), name)
			Eventually(func(g Gomega) {
				status := fleet[name].report(ctx).Status
				g.Expect(status.RenewTime.Time).To(BeTemporally("~", time.Now().Add(by), time.Minute), "each by its own clock")
				g.Expect(status.Breakers).To(HaveLen(1))
				g.Expect(status.Breakers[0].Since.Time).To(BeTemporally("~", opened.Add(by), time.Minute), "also of what it heard from others")
			}).Should(Succeed(), name)
		}
		permit, ok := fleet["proxy-behind"].breakers.Admit(tower, endpoint, breaker.LastResort)
		Expect(ok).To(BeTrue())
		permit.Done(breaker.Result{Kind: breaker.Success})
		for name, p := range fleet {
			Eventually(p.tower).Should(Equal(breaker.Closed), name)
			Expect(p.live.Load()).To(BeEquivalentTo(3), name)
		}
	})

	It("of a pod's last life is back before the proxy is ready", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		Expect(admin.Create(ctx, &v1alpha1.ProxyReport{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "proxy-1"},
			Status: v1alpha1.ProxyReportStatus{Schema: v1alpha1.ReportSchema, Breakers: []v1alpha1.BreakerReport{
				{ID: string(tower), State: v1alpha1.BackendOpen, Reason: v1alpha1.BackendSaturated, Remaining: "10m", Epoch: 3},
			}},
		})).To(Succeed())
		p := startProxy(ctx, "proxy-1")
		Eventually(p.Ready).Should(Succeed())
		Expect(p.tower()).To(Equal(breaker.Open))
		Eventually(func(g Gomega) {
			report := p.report(ctx)
			g.Expect(report.Status.Ready).To(BeTrue())
			g.Expect(report.Status.Breakers).To(HaveLen(1))
			g.Expect(report.OwnerReferences).To(HaveLen(1))
		}).Should(Succeed())
	})
})

var _ = Describe("A proxy", func() {
	It("says that it drains, then goes, and leaves nothing behind", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		for _, pod := range []string{"proxy-1", "proxy-2"} { // so that what the suite itself keeps open is open
			identity(ctx, account, pod)
		}
		before := goleak.IgnoreCurrent()
		first, second := startProxy(ctx, "proxy-1"), startProxy(ctx, "proxy-2")
		Eventually(first.Ready).Should(Succeed())
		Eventually(first.live.Load).Should(BeEquivalentTo(2))
		second.Drain()
		Eventually(func() bool { return second.report(ctx).Status.Draining }).Should(BeTrue())
		Eventually(first.live.Load).Should(BeEquivalentTo(1))
		second.stop()
		Expect(second.report(ctx).Name).To(BeEmpty())
		first.stop()
		Eventually(func() error { return goleak.Find(before) }).Should(Succeed())
	})

	It("reaches no other Secret with its Role", func(ctx SpecContext) {
		config, _ := identity(ctx, account, "proxy-1")
		c, err := client.New(config, client.Options{Scheme: admin.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		forbidden := WithTransform(apierrors.IsForbidden, BeTrue())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "other"}, &corev1.Secret{})).To(forbidden)
		Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))).To(forbidden)
	})

	It("becomes ready without a permission on reports, after a while", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		tablesOnly(ctx, "tables-only")
		config, _ := identity(ctx, "tables-only", "proxy-x")
		p := runProxy("proxy-x", config, nil)
		Eventually(p.models).Should(Equal([]string{"m"}))
		Expect(p.Ready()).To(MatchError(ContainSubstring("reports of the other proxies")))
		Eventually(p.Ready).Should(Succeed())
	})
})

// tablesOnly makes an account that may read Secrets and nothing else.
func tablesOnly(ctx context.Context, name string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}}},
	} {
		Expect(admin.Create(ctx, object)).To(Succeed())
	}
}

var _ = Describe("An outage of the API server", Serial, func() {
	It("stops no proxy, and all catch up at once after it", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		first, second := startProxy(ctx, "proxy-1"), startProxy(ctx, "proxy-2")
		Eventually(first.Ready).Should(Succeed())
		Eventually(second.Ready).Should(Succeed())

		apiServer := environment.ControlPlane.GetAPIServer()
		Expect(apiServer.Stop()).To(Succeed())
		first.saturate()
		Expect(first.Ready()).To(Succeed())
		Expect(first.models()).To(Equal([]string{"m"}))
		Expect(second.tower()).To(Equal(breaker.Closed))

		Expect(apiServer.Start()).To(Succeed())
		back := time.Now()
		Eventually(second.tower).Should(Equal(breaker.Open))
		AddReportEntry("return of the API server to adoption", time.Since(back))
		publish(ctx, table.Shards, "m", "another")
		Eventually(first.models).Should(ContainElement("another"))
		AddReportEntry("return of the API server to a new table", time.Since(back))
	})

	It("does not hold up the end of a proxy", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		p := startProxy(ctx, "proxy-1")
		Eventually(p.Ready).Should(Succeed())
		apiServer := environment.ControlPlane.GetAPIServer()
		Expect(apiServer.Stop()).To(Succeed())
		ended := make(chan struct{})
		go func() { defer close(ended); p.stop() }()
		Eventually(ended).Should(BeClosed())
		Expect(apiServer.Start()).To(Succeed())
	})
})
