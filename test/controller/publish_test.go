package controller

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("Publishing", func() {
	It("writes all shards, also the empty ones, and one shard for one edit", func(ctx context.Context) {
		w := newWorld(ctx)
		w.start(ctx, hooks{})
		for i := range table.Shards {
			Eventually(func() error { _, _, err := w.shard(ctx, i); return err }).Should(Succeed())
		}
		before := w.versions(ctx)
		r := w.route(ctx, "default")
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		after := w.versions(ctx)
		index := table.ShardOf(w.team + "/" + r.Name)
		Expect(after[index]).NotTo(Equal(before[index]))
		after[index] = before[index]
		Expect(after).To(Equal(before), "other shards were written, too")
	})

	It("publishes the last of a burst of edits in a moment", func(ctx context.Context) {
		w := newWorld(ctx)
		w.start(ctx, hooks{})
		r := w.route(ctx, "default")
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		for _, model := range []string{"a", "b", "c", "d", "e"} {
			edit(ctx, r, func() { r.Spec.Chain[0].Model = model })
		}
		start := time.Now()
		Eventually(func() string { return w.entry(ctx, "default").Chain[0].Model }).Should(Equal("e"))
		AddReportEntry("from the last edit to the published table", time.Since(start).String())
	})

	It("follows a Secret that is rotated, deleted and made again", func(ctx context.Context) {
		w := newWorld(ctx)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: "tower"}, Data: map[string][]byte{"token": []byte("first\n")}}
		Expect(admin.Create(ctx, secret)).To(Succeed())
		r := w.route(ctx, "default", func(r *v1alpha1.LLMRoute) {
			r.Spec.Chain[0].Auth = &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "tower", Key: "token"}}
		})
		w.start(ctx, hooks{})
		credential := func() string {
			e := w.entry(ctx, "default")
			if e == nil || e.Backend("tower") == nil || e.Backend("tower").Credential == nil {
				return ""
			}
			return e.Backend("tower").Credential.Value
		}
		Eventually(credential).Should(Equal("Bearer first"))
		id := w.entry(ctx, "default").Backend("tower").ID
		secret.Data["token"] = []byte("second")
		Expect(admin.Update(ctx, secret)).To(Succeed())
		Eventually(credential).Should(Equal("Bearer second"))
		Expect(w.entry(ctx, "default").Backend("tower").ID).NotTo(Equal(id))
		Expect(admin.Delete(ctx, secret)).To(Succeed())
		Eventually(credential).Should(BeEmpty())
		Eventually(func() string {
			return condition(get(ctx, r).Status.Conditions, v1alpha1.ConditionResolvedRefs)
		}).Should(Equal("False/SecretNotFound"))
		Expect(w.entry(ctx, "default").Backend("hosted")).NotTo(BeNil(), "the rest of the chain must serve on")
		secret.ResourceVersion, secret.UID, secret.Data = "", "", map[string][]byte{"token": []byte("third")}
		Expect(admin.Create(ctx, secret)).To(Succeed())
		Eventually(credential).Should(Equal("Bearer third"))
	})

	It("puts back the salt that somebody deletes, the same one", func(ctx context.Context) {
		w := newWorld(ctx)
		w.start(ctx, hooks{})
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: controller.SaltSecretName}}
		stored := func() []byte {
			_ = admin.Get(ctx, client.ObjectKeyFromObject(secret), secret)
			return secret.Data[controller.SaltKey]
		}
		Eventually(stored).ShouldNot(BeEmpty())
		salt := stored()
		Expect(admin.Delete(ctx, secret)).To(Succeed())
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(secret), secret) }).Should(Succeed())
		Expect(stored()).To(Equal(salt))
	})

	It("puts back a shard that somebody deletes or damages", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		w.start(ctx, hooks{})
		index := table.ShardOf(w.team + "/default")
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		secret := get(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: table.ShardName(index)}})
		Expect(admin.Delete(ctx, secret)).To(Succeed())
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		secret = get(ctx, secret)
		secret.Data[table.ShardKey] = []byte("damaged")
		Expect(admin.Update(ctx, secret)).To(Succeed())
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
	})

	It("keeps salt and shards when another manager takes over", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		first := w.start(ctx, hooks{elect: true})
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		Eventually(func() error { _, _, err := w.shard(ctx, table.Shards-1); return err }).Should(Succeed())
		first.stop()
		before := w.versions(ctx)
		w.start(ctx, hooks{elect: true})
		w.route(ctx, "second")
		Eventually(func() *table.Route { return w.entry(ctx, "second") }).ShouldNot(BeNil())
		after := w.versions(ctx)
		after[table.ShardOf(w.team+"/second")] = before[table.ShardOf(w.team+"/second")]
		Expect(after).To(Equal(before), "a shard that did not change was written")
	})

	It("lets only the leader write", func(ctx context.Context) {
		w := newWorld(ctx)
		r := w.route(ctx, "default")
		first := w.start(ctx, hooks{elect: true})
		Eventually(func() int64 { return get(ctx, r).Status.ObservedGeneration }).Should(BeEquivalentTo(1))
		second := w.start(ctx, hooks{elect: true})
		edit(ctx, r, func() { r.Spec.Chain[0].Model = "other" })
		Eventually(func() int64 { return get(ctx, r).Status.ObservedGeneration }).Should(BeEquivalentTo(2))
		Expect(second.writes.Load()).To(BeZero())
		first.stop() // releases the lease, so the other need not wait for it to run out
		edit(ctx, r, func() { r.Spec.Chain[0].Model = "third" })
		Eventually(func() int64 { return get(ctx, r).Status.ObservedGeneration }).Should(BeEquivalentTo(3))
		Expect(second.writes.Load()).NotTo(BeZero())
	})
})

// versions returns the resourceVersion of each shard and, last, of the salt.
func (w world) versions(ctx context.Context) []string {
	var versions []string
	for i := range table.Shards {
		versions = append(versions, w.versionOf(ctx, table.ShardName(i)))
	}
	return append(versions, w.versionOf(ctx, controller.SaltSecretName))
}

func (w world) versionOf(ctx context.Context, name string) string {
	s := &corev1.Secret{}
	Expect(admin.Get(ctx, types.NamespacedName{Namespace: w.system, Name: name}, s)).To(Succeed())
	return s.ResourceVersion
}
