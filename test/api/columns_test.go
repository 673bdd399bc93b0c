package api

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// row is one line as kubectl prints it: column name to cell. AGE moves with time and is left out.
type row map[string]string

var _ = Describe("The columns", func() {
	until := metav1.NewTime(time.Date(2036, 8, 13, 23, 0, 0, 0, time.UTC))

	It("of llmroutes tell who serves, and with -o wide why", func(ctx SpecContext) {
		route := &v1alpha1.LLMRoute{
			ObjectMeta: metav1.ObjectMeta{Name: "columns", Namespace: namespace},
			Spec:       v1alpha1.LLMRouteSpec{Chain: []v1alpha1.Backend{{Name: "tower", URL: "http://tower.lan:11434/v1"}}},
		}
		Expect(admin.Create(ctx, route)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, route)).To(Succeed()) })
		route.Status = v1alpha1.LLMRouteStatus{
			ObservedGeneration: 1, Model: "sirens-echo/columns", State: v1alpha1.RouteSaturated, Serving: "hosted",
			Pinned: "hosted until 2036-08-13T23:00:00Z (game-night)", Proxies: "3/3", Chain: "tower!,hosted",
			RetryAt: &until, Reason: "Saturated",
			Backends: []v1alpha1.BackendStatus{{
				Name: "tower", State: v1alpha1.BackendOpen, Reason: string(v1alpha1.BackendSaturated),
				Since: &until, RetryAt: &until, Proxies: "3/3", Message: "no first token within 20s",
			}},
			Conditions: []metav1.Condition{{
				Type: string(v1alpha1.ConditionReady), Status: metav1.ConditionTrue, Reason: string(v1alpha1.ReasonReady), LastTransitionTime: until,
			}},
		}
		Expect(manager().Status().Patch(ctx, route, client.Merge)).To(Succeed())
		names, wide, cells := printed(ctx, "llmroutes", namespace, "columns")
		Expect(names).To(Equal([]string{"Name", "Model", "State", "Serving", "Pinned", "Proxies", "Ready", "Age"}))
		Expect(wide).To(Equal([]string{"Chain", "Retry", "Reason"}))
		Expect(cells).To(Equal(row{
			"Name": "columns", "Model": "sirens-echo/columns", "State": "Saturated", "Serving": "hosted",
			"Pinned": "hosted until 2036-08-13T23:00:00Z (game-night)", "Proxies": "3/3", "Ready": "True",
			"Chain": "tower!,hosted", "Retry": "2036-08-13T23:00:00Z", "Reason": "Saturated",
		}))
	})

	It("of backendpins tell what is pinned, until when, and by whom", func(ctx SpecContext) {
		pin := newPin("columns", namesOf("default"))
		Expect(as("gamer", nil).Create(ctx, pin)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pin)).To(Succeed()) })
		pin.Status = v1alpha1.BackendPinStatus{
			ObservedGeneration: 1, Phase: v1alpha1.PinActive, StartsAt: &until, ExpiresAt: &until,
			MatchedRoutes: 1, Routes: []string{"default"}, Scope: "default",
		}
		Expect(manager().Status().Patch(ctx, pin, client.Merge)).To(Succeed())
		names, wide, cells := printed(ctx, "backendpins", namespace, "columns")
		Expect(names).To(Equal([]string{"Name", "Backend", "Mode", "Routes", "Phase", "Expires", "By", "Reason", "Age"}))
		Expect(wide).To(BeEmpty())
		Expect(cells).To(Equal(row{
			"Name": "columns", "Backend": "hosted", "Mode": "Prefer", "Routes": "default", "Phase": "Active",
			"Expires": "2036-08-13T23:00:00Z", "By": "gamer", "Reason": "game night",
		}))
	})

	It("of proxyreports tell which proxies live", func(ctx SpecContext) {
		report := &v1alpha1.ProxyReport{
			ObjectMeta: metav1.ObjectMeta{Name: "proxy-columns", Namespace: systemNamespace},
			Status:     v1alpha1.ProxyReportStatus{Pod: "proxy-columns", Ready: true, RenewTime: metav1.NowMicro()},
		}
		Expect(proxy("proxy-columns").Create(ctx, report)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, report)).To(Succeed()) })
		names, _, cells := printed(ctx, "proxyreports", systemNamespace, "proxy-columns")
		Expect(names).To(Equal([]string{"Name", "Ready", "Draining", "Renewed", "Age"}))
		Expect(cells).To(HaveKeyWithValue("Ready", "true"))
		Expect(cells).To(HaveKeyWithValue("Draining", "false"))
	})
})

var _ = Describe("The names", func() {
	It("are those that people type", func() {
		client, err := discovery.NewDiscoveryClientForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		list, err := client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())
		got := map[string][]string{}
		for _, r := range list.APIResources {
			got[r.Name] = append(append([]string{r.SingularName}, r.ShortNames...), r.Categories...)
		}
		Expect(got).To(Equal(map[string][]string{
			"llmroutes":          {"llmroute", "llmr", "spillway"},
			"llmroutes/status":   {""},
			"backendpins":        {"backendpin", "bpin", "pins", "spillway"},
			"backendpins/status": {""},
			"proxyreports":       {"proxyreport", "preport"},
		}))
	})
})

// printed asks for an object as kubectl get does. It returns the names of the columns, those of -o wide, and the cells.
func printed(ctx context.Context, resource, namespace, name string) (names, wide []string, cells row) {
	GinkgoHelper()
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &v1alpha1.GroupVersion, "/apis", clientgoscheme.Codecs.WithoutConversion()
	made, err := rest.RESTClientFor(c)
	Expect(err).NotTo(HaveOccurred())
	raw, err := made.Get().Namespace(namespace).Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	var table metav1.Table
	Expect(json.Unmarshal(raw, &table)).To(Succeed())
	Expect(table.Rows).To(HaveLen(1))
	cells = row{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			names = append(names, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
		if column.Name != "Age" {
			cells[column.Name] = fmt.Sprint(table.Rows[0].Cells[i])
		}
	}
	return names, wide, cells
}
