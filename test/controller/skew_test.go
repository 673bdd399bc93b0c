package controller

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

var _ = Describe("A CRD of another release", Ordered, func() {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "llmroutes." + v1alpha1.Group}}
	var ours *apiextensionsv1.CustomResourceValidation
	restore := func(ctx SpecContext) {
		get(ctx, crd).Spec.Versions[0].Schema = ours.DeepCopy()
		Expect(admin.Update(ctx, crd)).To(Succeed())
	}

	// The CRD lacks one field of this release and has one that it does not know.
	BeforeAll(func(ctx SpecContext) {
		schema := get(ctx, crd).Spec.Versions[0].Schema
		ours = schema.DeepCopy()
		spec := schema.OpenAPIV3Schema.Properties["spec"]
		delete(spec.Properties, "rateLimit")
		spec.Properties["budget"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		Expect(admin.Update(ctx, crd)).To(Succeed())
		DeferCleanup(restore)
	})

	It("is told on the routes whose limits it drops, until it is replaced", func(ctx SpecContext) {
		w := newWorld(ctx)
		raw := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "LLMRoute", "metadata": map[string]any{"namespace": w.team, "name": "default"},
			"spec": map[string]any{
				"chain": []any{map[string]any{"name": "tower", "url": "http://tower.example/v1"}}, "budget": int64(7),
				"rateLimit": map[string]any{"requests": int64(3)},
			},
		}}
		Eventually(func() bool { // the schema takes a moment
			made := raw.DeepCopy()
			Expect(admin.Create(ctx, made)).To(Succeed())
			_, kept, _ := unstructured.NestedInt64(made.Object, "spec", "budget")
			_, limit, _ := unstructured.NestedMap(made.Object, "spec", "rateLimit")
			if !kept || limit {
				Expect(admin.Delete(ctx, made)).To(Succeed())
			}
			return kept && !limit
		}).Should(BeTrue())
		first := w.start(ctx, hooks{})
		r := &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: "default"}}
		skew := func() string { return condition(get(ctx, r).Status.Conditions, v1alpha1.ConditionSchemaSkew) }
		Eventually(skew).Should(Equal("True/CRDOlder"))
		Expect(meta.FindStatusCondition(r.Status.Conditions, string(v1alpha1.ConditionSchemaSkew)).Message).To(And(
			ContainSubstring("drops spec.rateLimit;"), ContainSubstring("does not do: spec.budget;")))
		Eventually(func() *table.Route { return w.entry(ctx, "default") }).ShouldNot(BeNil(), "the rest is served")
		first.stop()
		restore(ctx)
		w.start(ctx, hooks{})
		Eventually(skew).Should(BeEmpty())
	})
})
