package controller

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// route makes a route over two backends, tower and hosted.
func (w world) route(ctx context.Context, name string, change ...func(*v1alpha1.LLMRoute)) *v1alpha1.LLMRoute {
	r := &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: name}}
	for _, backend := range []string{"tower", "hosted"} {
		r.Spec.Chain = append(r.Spec.Chain, v1alpha1.Backend{Name: backend, URL: "http://" + name + "-" + backend + ".example/v1"})
	}
	for _, f := range change {
		f(r)
	}
	Expect(admin.Create(ctx, r)).To(Succeed())
	return r
}

// get reads an object anew.
func get[T client.Object](ctx context.Context, o T) T {
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	return o
}

// edit changes an object as it is now; the manager may write its status meanwhile.
func edit(ctx context.Context, o client.Object, change func()) {
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		get(ctx, o)
		change()
		return admin.Update(ctx, o)
	})).To(Succeed())
}

// shard reads one published shard; its error says why there is none.
func (w world) shard(ctx context.Context, index int) (*table.Shard, table.Revision, error) {
	secret := &corev1.Secret{}
	if err := admin.Get(ctx, types.NamespacedName{Namespace: w.system, Name: table.ShardName(index)}, secret); err != nil {
		return nil, "", err
	}
	if secret.Type != table.ShardSecretType {
		return nil, "", fmt.Errorf("type %q", secret.Type)
	}
	p := decode(secret)
	return p.shard, p.revision, p.err
}

// published is what a shard's Secret holds.
type published struct {
	shard    *table.Shard
	revision table.Revision
	err      error
}

// decoded is what was read before, by resourceVersion: specs read again and again, and under the race detector a large shard
// takes seconds.
var decoded = map[string]published{}

func decode(secret *corev1.Secret) published {
	p, known := decoded[secret.ResourceVersion]
	if !known {
		p.shard, p.revision, p.err = table.Decode(secret.Data[table.ShardKey], nil)
		decoded[secret.ResourceVersion] = p
	}
	return p
}

// entry reads the published entry of a route; nil where there is none.
func (w world) entry(ctx context.Context, name string) *table.Route {
	key := w.team + "/" + name
	shard, _, err := w.shard(ctx, table.ShardOf(key))
	if err != nil {
		return nil
	}
	for _, r := range shard.Routes {
		if r.Key() == key {
			return r
		}
	}
	return nil
}

// entryUID is the UID of the published entry of a route.
func (w world) entryUID(ctx context.Context, name string) string {
	if e := w.entry(ctx, name); e != nil {
		return e.UID
	}
	return ""
}

// proxy is a proxy that the test plays.
type proxy struct {
	w        world
	name     string
	breakers []v1alpha1.BreakerReport
	draining bool
}

// report writes what the proxy would: the revisions that are published now, and its breakers.
func (p *proxy) report(ctx context.Context) {
	r := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: p.w.system, Name: p.name}}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(r), r); client.IgnoreNotFound(err) != nil {
		Expect(err).NotTo(HaveOccurred())
	}
	r.Status = v1alpha1.ProxyReportStatus{
		Pod: p.name, Schema: v1alpha1.ReportSchema, RenewTime: metav1.NowMicro(), Ready: true, Draining: p.draining, Breakers: p.breakers,
	}
	secrets := &corev1.SecretList{}
	Expect(admin.List(ctx, secrets, client.InNamespace(p.w.system))).To(Succeed())
	for i := range secrets.Items {
		shard, ok := table.ShardIndex(secrets.Items[i].Name)
		if !ok {
			continue
		}
		if published := decode(&secrets.Items[i]); published.err == nil {
			r.Status.Tables = append(r.Status.Tables, v1alpha1.TableRevision{Shard: int32(shard), Revision: string(published.revision)})
		}
	}
	if r.ResourceVersion == "" {
		Expect(admin.Create(ctx, r)).To(Succeed())
		return
	}
	Expect(admin.Update(ctx, r)).To(Succeed())
}

// opened is the report of a breaker that has just opened.
func opened(id table.BackendID, reason v1alpha1.BackendReason, epoch int64, remaining time.Duration) v1alpha1.BreakerReport {
	now := metav1.NowMicro()
	return v1alpha1.BreakerReport{
		ID: string(id), State: v1alpha1.BackendOpen, Reason: reason, Since: &now, Epoch: epoch,
		Remaining: v1alpha1.FormatDuration(remaining), Saturations: 2, Message: "no first token within 20s",
	}
}

// condition is "Status/Reason" of a condition.
func condition(all []metav1.Condition, kind v1alpha1.ConditionType) string {
	c := meta.FindStatusCondition(all, string(kind))
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// routeState is what a row of `kubectl get llmroutes` says.
func routeState(ctx context.Context, r *v1alpha1.LLMRoute) func() string {
	return func() string {
		s := get(ctx, r).Status
		return fmt.Sprintf("%s serving=%s chain=%s proxies=%s ready=%s", s.State, s.Serving, s.Chain, s.Proxies, condition(s.Conditions, v1alpha1.ConditionReady))
	}
}

// notes lists the Events about an object, "Reason: note".
func notes(ctx context.Context, o client.Object) func() []string {
	return func() []string {
		list := &eventsv1.EventList{}
		Expect(admin.List(ctx, list, client.InNamespace(o.GetNamespace()))).To(Succeed())
		var notes []string
		for _, e := range list.Items {
			if e.Regarding.Name == o.GetName() && e.Regarding.Kind != "" {
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return notes
	}
}

// stored makes routes with these specs that break the schema of today, as those do that were stored under an older one.
func (w world) stored(ctx context.Context, specs map[string]map[string]any) map[string]*unstructured.Unstructured {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "llmroutes." + v1alpha1.Group}}
	strict := get(ctx, crd).Spec.Versions[0].Schema
	set := func(schema *apiextensionsv1.CustomResourceValidation) {
		get(ctx, crd).Spec.Versions[0].Schema = schema
		Expect(admin.Update(ctx, crd)).To(Succeed())
	}
	set(&apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}})
	made := map[string]*unstructured.Unstructured{}
	for name, spec := range specs {
		made[name] = &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "LLMRoute",
			"metadata": map[string]any{"namespace": w.team, "name": name}, "spec": spec,
		}}
		Eventually(func() error { return admin.Create(ctx, made[name]) }).Should(Succeed()) // the schema takes a moment
	}
	set(strict)
	Eventually(func() error { // that one, too
		return admin.Create(ctx, &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: w.team, Name: "empty"}}, client.DryRunAll)
	}).ShouldNot(Succeed())
	return made
}
