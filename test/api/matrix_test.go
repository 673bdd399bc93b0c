package api

import (
	"maps"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// Eight users and six things that they may try, on the real authorizer and with the policies in force.
var _ = Describe("What each user may do", Ordered, ContinueOnFailure, func() {
	actions := []string{"pin default", "pin fast", "pin by selector", "extend a pin on default", "delete a pin", "edit a route"}
	may := map[string][]string{
		"matrix-admin":    actions,                                                                                   // cluster-admin
		"matrix-viewer":   nil,                                                                                       // spillway-viewer
		"matrix-editor":   {"edit a route"},                                                                          // spillway-editor
		"matrix-clerk":    {"delete a pin"},                                                                          // spillway-pinner, without the verb
		"matrix-gamer":    {"pin default", "extend a pin on default", "delete a pin"},                                // spillway-pinner, and the verb on default
		"matrix-host":     {"pin default", "pin fast", "pin by selector", "extend a pin on default", "delete a pin"}, // the verb on all
		"matrix-verb":     nil,                                                                                       // the verb on all, and no pin objects
		"matrix-stranger": nil,
	}
	pin := newPin("matrix", namesOf("default"))

	BeforeAll(func(ctx SpecContext) {
		bind(ctx, "matrix-admin", "ClusterRole", "cluster-admin")
		bind(ctx, "matrix-viewer", "ClusterRole", "spillway-viewer")
		bind(ctx, "matrix-editor", "ClusterRole", "spillway-editor")
		for _, user := range []string{"matrix-clerk", "matrix-gamer", "matrix-host"} {
			bind(ctx, user, "ClusterRole", "spillway-pinner")
		}
		grantPin(ctx, "matrix-gamer", []string{"default"})
		grantPin(ctx, "matrix-host", nil)
		grantPin(ctx, "matrix-verb", nil)
		Expect(admin.Create(ctx, pin)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pin)).To(Succeed()) })
		Eventually(func(g Gomega) { // the authorizer takes a moment
			g.Expect(as("matrix-gamer", nil).Create(ctx, newPin("try", namesOf("default")), client.DryRunAll)).To(Succeed())
			g.Expect(as("matrix-host", nil).Create(ctx, newPin("try", everyRoute()), client.DryRunAll)).To(Succeed())
		}).WithContext(ctx).WithTimeout(policyWait).Should(Succeed())
	})

	do := map[string]func(SpecContext, client.Client) error{
		actions[0]: func(ctx SpecContext, c client.Client) error {
			return c.Create(ctx, newPin("try", namesOf("default")), client.DryRunAll)
		},
		actions[1]: func(ctx SpecContext, c client.Client) error {
			return c.Create(ctx, newPin("try", namesOf("fast")), client.DryRunAll)
		},
		actions[2]: func(ctx SpecContext, c client.Client) error {
			return c.Create(ctx, newPin("try", everyRoute()), client.DryRunAll)
		},
		actions[3]: func(ctx SpecContext, c client.Client) error {
			longer := pin.DeepCopy()
			longer.Spec.Duration = "5h"
			return c.Update(ctx, longer, client.DryRunAll)
		},
		actions[4]: func(ctx SpecContext, c client.Client) error { return c.Delete(ctx, pin.DeepCopy(), client.DryRunAll) },
		actions[5]: func(ctx SpecContext, c client.Client) error {
			route := &v1alpha1.LLMRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
			return c.Patch(ctx, route, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"queue":{"length":9}}}`)), client.DryRunAll)
		},
	}
	for _, user := range slices.Sorted(maps.Keys(may)) {
		for _, action := range actions {
			allowed := slices.Contains(may[user], action)
			It(map[bool]string{true: "lets ", false: "refuses "}[allowed]+user+": "+action, func(ctx SpecContext) {
				err := do[action](ctx, as(user, nil))
				if allowed {
					Expect(err).NotTo(HaveOccurred())
					return
				}
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			})
		}
	}
})
