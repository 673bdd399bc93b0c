package controller

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/table"
)

// No garbage collector runs beside this API server. test/cluster sees it delete what these owners own.
var _ = Describe("What the manager writes in its own namespace", func() {
	owned := func(o *controller.Options) { o.OwnerDeployment = "spillway-manager" }

	It("belongs to its Deployment, whoever leads", func(ctx context.Context) {
		w := newWorld(ctx)
		deployment := w.deployment(ctx)
		first := w.start(ctx, hooks{elect: true, options: owned})
		w.eventuallyOwnedBy(ctx, deployment.UID)
		first.stop()
		w.start(ctx, hooks{elect: true, options: owned})
		w.route(ctx, "default")
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		w.eventuallyOwnedBy(ctx, deployment.UID)
	})

	It("belongs to the next Deployment after an uninstall, whether or not it was deleted in between", func(ctx context.Context) {
		w := newWorld(ctx)
		w.route(ctx, "default")
		before := w.deployment(ctx)
		first := w.start(ctx, hooks{elect: true, options: owned})
		w.eventuallyOwnedBy(ctx, before.UID)
		salt := get(ctx, w.salt()).Data[controller.SaltKey]
		first.stop()
		Expect(admin.Delete(ctx, before)).To(Succeed())

		after := w.deployment(ctx)
		second := w.start(ctx, hooks{elect: true, options: owned})
		w.eventuallyOwnedBy(ctx, after.UID)
		Expect(get(ctx, w.salt()).Data[controller.SaltKey]).To(Equal(salt))

		// The garbage collector may come late, with what it knew before.
		for _, object := range w.written() {
			Expect(admin.Delete(ctx, object)).To(Succeed())
		}
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil())
		w.eventuallyMade(ctx, w.salt())
		Expect(get(ctx, w.salt()).OwnerReferences).To(HaveLen(1))
		Expect(get(ctx, w.salt()).Data[controller.SaltKey]).To(Equal(salt))
		second.stop()
	})

	It("is adopted where it was there before it had an owner", func(ctx context.Context) {
		w := newWorld(ctx)
		first := w.start(ctx, hooks{elect: true})
		Eventually(func() error { _, _, err := w.shard(ctx, table.Shards-1); return err }).Should(Succeed())
		first.stop()
		deployment := w.deployment(ctx)
		w.start(ctx, hooks{elect: true, options: owned})
		w.eventuallyOwnedBy(ctx, deployment.UID)
	})

	It("is written without an owner where there is no such Deployment", func(ctx context.Context) {
		w := newWorld(ctx)
		w.start(ctx, hooks{options: owned})
		Eventually(func() error { _, _, err := w.shard(ctx, table.Shards-1); return err }).Should(Succeed())
		Expect(get(ctx, w.salt()).OwnerReferences).To(BeEmpty())
	})

	It("includes a salt that nobody can replace", func(ctx context.Context) {
		w := newWorld(ctx)
		w.start(ctx, hooks{})
		salt := w.salt()
		w.eventuallyMade(ctx, salt)
		salt.Data[controller.SaltKey][0]++
		Expect(apierrors.IsInvalid(admin.Update(ctx, salt))).To(BeTrue())
	})
})

// deployment is what the manager runs in, as far as the API server knows.
func (w world) deployment(ctx context.Context) *appsv1.Deployment {
	labels := map[string]string{"app": "manager"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: "spillway-manager"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
			},
		},
	}
	Expect(admin.Create(ctx, d)).To(Succeed())
	return d
}

func (w world) salt() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: controller.SaltSecretName}}
}

func (w world) eventuallyMade(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(o), o) }).Should(Succeed())
}

// written is all that a manager writes in its own namespace, apart from Events.
func (w world) written() []client.Object {
	all := []client.Object{w.salt(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: controller.LeaseName}}}
	for i := range table.Shards {
		all = append(all, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.system, Name: table.ShardName(i)}})
	}
	return all
}

// eventuallyOwnedBy waits until every object that is written is owned by one alone, which waits for nobody when it goes.
func (w world) eventuallyOwnedBy(ctx context.Context, uid types.UID) {
	GinkgoHelper()
	Eventually(func() error {
		for _, object := range w.written() {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			owners := object.GetOwnerReferences()
			if len(owners) != 1 || owners[0].UID != uid || owners[0].BlockOwnerDeletion != nil || owners[0].Kind != "Deployment" {
				return fmt.Errorf("%s is owned by %v", object.GetName(), owners)
			}
		}
		return nil
	}).Should(Succeed())
}
