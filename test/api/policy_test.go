package api

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/apiserver"
)

var _ = Describe("Who may pin", Ordered, ContinueOnFailure, func() {
	sixteen := make([]string, 16) // as many as the schema allows
	for i := range sixteen {
		sixteen[i] = fmt.Sprintf("route-%02d", i)
	}

	// gamer holds the verb on "default" (samples/pinner.yaml), host on all routes, most on fifteen of sixteen, clerk has
	// only the pin objects.
	BeforeAll(func(ctx SpecContext) {
		grantPin(ctx, "host", nil)
		grantPin(ctx, "most", sixteen[:15])
		for _, user := range []string{"host", "most", "clerk"} {
			bind(ctx, user, "ClusterRole", "spillway-pinner")
		}
		Eventually(func(g Gomega) {
			g.Expect(as("host", nil).Create(ctx, newPin("probe", everyRoute()), client.DryRunAll)).To(Succeed())
			g.Expect(as("clerk", nil).List(ctx, &v1alpha1.BackendPinList{}, client.InNamespace(namespace))).To(Succeed())
		}).WithContext(ctx).WithTimeout(policyWait).Should(Succeed())
	})

	for name, tc := range map[string]struct {
		user   string
		routes v1alpha1.PinRoutes
		want   []string // parts of the refusal; none: allowed
	}{
		"who holds the verb on the route may": {user: "gamer", routes: namesOf("default")},
		"who lacks it on another route may not, and is told which permission is missing": {
			user: "gamer", routes: namesOf("fast"),
			want: []string{`user "gamer" lacks the verb "pin" on llmroutes.spillway.dev/fast in namespace "sirens-echo"`},
		},
		"who lacks it on one of two may not, and only that one is named": {
			user: "gamer", routes: namesOf("default", "fast"), want: []string{`llmroutes.spillway.dev/fast in`},
		},
		"who holds it on one route may not select": {
			user: "gamer", routes: everyRoute(),
			want: []string{`user "gamer" lacks the verb "pin" on all llmroutes.spillway.dev in namespace "sirens-echo"`},
		},
		"who holds it on all routes may select":                       {user: "host", routes: everyRoute()},
		"who holds it on all routes may name any":                     {user: "host", routes: namesOf(sixteen...)},
		"who has only the pin objects may not":                        {user: "clerk", routes: namesOf("default"), want: []string{"llmroutes.spillway.dev/default in"}},
		"as many names as the schema allows are all asked about":      {user: "most", routes: namesOf(sixteen...), want: []string{"llmroutes.spillway.dev/route-15 in"}},
		"who has no role on the pin objects is refused by plain RBAC": {user: "stranger", routes: namesOf("default"), want: []string{"cannot create resource"}},
	} {
		It(name, func(ctx SpecContext) {
			err := as(tc.user, nil).Create(ctx, newPin("try", tc.routes), client.DryRunAll)
			if tc.want == nil {
				Expect(err).NotTo(HaveOccurred())
			}
			for _, part := range tc.want {
				Expect(err).To(MatchError(ContainSubstring(part)))
			}
		})
	}

	It("lets the user of the samples make the pin of the samples, and no other user", func(ctx SpecContext) {
		pin := apiserver.Objects("samples/pin.yaml")[0]
		Expect(as("gamer", nil).Create(ctx, pin.DeepCopy(), client.DryRunAll)).To(Succeed())
		Expect(as("clerk", nil).Create(ctx, pin, client.DryRunAll)).To(MatchError(ContainSubstring("llmroutes.spillway.dev/default in")))
	})

	It("asks again when a pin is extended, and not when only its metadata change or it is deleted", func(ctx SpecContext) {
		pin := newPin("extended", namesOf("fast"))
		Expect(as("host", nil).Create(ctx, pin)).To(Succeed())
		longer := pin.DeepCopy()
		longer.Spec.Duration = "5h"
		Expect(as("gamer", nil).Update(ctx, longer)).To(MatchError(ContainSubstring("llmroutes.spillway.dev/fast in")))
		labelled := pin.DeepCopy()
		labelled.Labels = map[string]string{"team": "red"}
		Expect(as("gamer", nil).Update(ctx, labelled)).To(Succeed())
		Expect(as("gamer", nil).Delete(ctx, labelled)).To(Succeed())
	})
})

var _ = Describe("The annotation pinned-by", func() {
	It("names who made the pin, whatever they wrote there", func(ctx SpecContext) {
		pin := newPin("forged", namesOf("default"))
		pin.Annotations = map[string]string{v1alpha1.AnnotationPinnedBy: "somebody-else", "kept": "yes"}
		Expect(as("gamer", nil).Create(ctx, pin)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pin)).To(Succeed()) })
		Expect(pin.Annotations).To(Equal(map[string]string{v1alpha1.AnnotationPinnedBy: "gamer", "kept": "yes"}))

		By("keeping the name when somebody changes or removes it")
		pin.Annotations[v1alpha1.AnnotationPinnedBy] = "somebody-else"
		Expect(as("gamer", nil).Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPinnedBy, "gamer"))
		pin.Annotations = nil
		Expect(admin.Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPinnedBy, "gamer"))

		By("keeping the name when the manager writes status")
		pin.Status.Phase = v1alpha1.PinActive
		Expect(manager().Status().Patch(ctx, pin, client.Merge)).To(Succeed())
		Expect(pin.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPinnedBy, "gamer"))

		By("naming who changes the spec")
		pin.Spec.Duration = "1h"
		Expect(admin.Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations[v1alpha1.AnnotationPinnedBy]).NotTo(BeElementOf("gamer", "somebody-else", ""))
	})
})

var _ = Describe("Without the mutating policy, as on older clusters, the annotation pinned-by", Serial, Ordered, func() {
	const binding = "policy/pinned-by.yaml"
	BeforeAll(func(ctx SpecContext) {
		for _, object := range apiserver.Objects(binding) {
			Expect(admin.Delete(ctx, object)).To(Succeed())
		}
		Eventually(func(g Gomega) {
			pin := newPin("probe", namesOf("default"))
			g.Expect(admin.Create(ctx, pin, client.DryRunAll)).To(Succeed())
			g.Expect(pin.Annotations).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(policyWait).Should(Succeed())
	})
	AfterAll(func(ctx SpecContext) {
		for _, object := range apiserver.Objects(binding) { // the last case has them again, if it came to it
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, object))).To(Succeed())
		}
		waitForPolicies(ctx)
	})

	for name, tc := range map[string]struct {
		by   map[string]string
		want OmegaMatcher
	}{
		"may be left out":           {nil, Succeed()},
		"may name the user":         {map[string]string{v1alpha1.AnnotationPinnedBy: "gamer"}, Succeed()},
		"cannot name somebody else": {map[string]string{v1alpha1.AnnotationPinnedBy: "host"}, MatchError(ContainSubstring("it cannot name somebody else"))},
	} {
		It(name, func(ctx SpecContext) {
			pin := newPin("try", namesOf("default"))
			pin.Annotations = tc.by
			Expect(as("gamer", nil).Create(ctx, pin, client.DryRunAll)).To(tc.want)
		})
	}

	It("is not made up later, when the policy has come, for who only labels the pin", func(ctx SpecContext) {
		pin := newPin("older", namesOf("default"))
		Expect(as("gamer", nil).Create(ctx, pin)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pin)).To(Succeed()) })
		Expect(pin.Annotations).To(BeEmpty())
		apiserver.Create(ctx, admin, binding)
		waitForPolicies(ctx)
		pin.Labels = map[string]string{"team": "red"}
		Expect(as("gamer", nil).Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations).To(BeEmpty())
		pin.Annotations = map[string]string{v1alpha1.AnnotationPinnedBy: "gamer", "kept": "yes"}
		Expect(as("gamer", nil).Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations).To(Equal(map[string]string{"kept": "yes"}), "nor by who claims it for themselves")
		pin.Spec.Duration = "5h"
		Expect(as("gamer", nil).Update(ctx, pin)).To(Succeed())
		Expect(pin.Annotations).To(Equal(map[string]string{v1alpha1.AnnotationPinnedBy: "gamer", "kept": "yes"}))
	})
})

var _ = Describe("Who may report", func() {
	report := func(name string) *v1alpha1.ProxyReport {
		return &v1alpha1.ProxyReport{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: systemNamespace},
			Status:     v1alpha1.ProxyReportStatus{Pod: name, Schema: v1alpha1.ReportSchema, RenewTime: metav1.NowMicro(), Ready: true},
		}
	}
	const refusal = "a proxy writes only the ProxyReport that is named after the pod of its token"

	It("lets a proxy create, update and delete its own in one write each", func(ctx SpecContext) {
		own := report("proxy-a")
		Expect(proxy("proxy-a").Create(ctx, own)).To(Succeed())
		Expect(own.Status.Ready).To(BeTrue(), "the create carries the status")
		own.Status.Draining = true
		Expect(proxy("proxy-a").Update(ctx, own)).To(Succeed())
		Expect(proxy("proxy-a").Delete(ctx, own)).To(Succeed())
	})

	It("knows the pod from a token that is bound to it, as a kubelet mounts", func(ctx SpecContext) {
		bound := withPodToken(ctx, "spillway-proxy", "proxy-real")
		Expect(bound.Create(ctx, report("proxy-real"), client.DryRunAll)).To(Succeed())
		Expect(bound.Create(ctx, report("proxy-other"), client.DryRunAll)).To(MatchError(ContainSubstring(refusal)))
	})

	It("refuses a proxy the report of another", func(ctx SpecContext) {
		other := report("proxy-b")
		Expect(proxy("proxy-a").Create(ctx, other, client.DryRunAll)).To(MatchError(ContainSubstring(refusal)))
		Expect(proxy("proxy-b").Create(ctx, other)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = admin.Delete(ctx, report("proxy-b")) })
		forged := other.DeepCopy()
		forged.Status.Draining = true
		Expect(proxy("proxy-a").Update(ctx, forged)).To(MatchError(ContainSubstring(refusal)))
		Expect(proxy("proxy-a").Delete(ctx, forged)).To(MatchError(ContainSubstring(refusal)))
	})

	It("refuses a report that speaks for another pod", func(ctx SpecContext) {
		lying := report("proxy-a")
		lying.Status.Pod = "proxy-b"
		Expect(proxy("proxy-a").Create(ctx, lying, client.DryRunAll)).To(MatchError(ContainSubstring("status.pod of a ProxyReport must be its name")))
	})

	It("refuses a token that is bound to no pod", func(ctx SpecContext) {
		unbound := as("system:serviceaccount:"+systemNamespace+":spillway-proxy", nil)
		Expect(unbound.Create(ctx, report("proxy-a"), client.DryRunAll)).To(MatchError(ContainSubstring(refusal)))
	})

	It("lets the manager delete a stale one, and not write one", func(ctx SpecContext) {
		stale := report("proxy-stale")
		Expect(proxy("proxy-stale").Create(ctx, stale)).To(Succeed())
		Expect(manager().Create(ctx, report("proxy-made-up"))).To(MatchError(ContainSubstring("cannot create resource")))
		Expect(manager().Delete(ctx, stale)).To(Succeed())
	})
})

// grantPin gives a user the verb "pin" on the named routes, or on all of the namespace.
func grantPin(ctx SpecContext, user string, routes []string) {
	GinkgoHelper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "pin-" + user, Namespace: namespace},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.Group}, Resources: []string{"llmroutes"}, ResourceNames: routes, Verbs: []string{"pin"},
		}},
	}
	Expect(admin.Create(ctx, role)).To(Succeed())
	bind(ctx, user, "Role", role.Name)
}

func bind(ctx SpecContext, user, kind, role string) {
	GinkgoHelper()
	Expect(admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user + "-" + role, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})).To(Succeed())
}
