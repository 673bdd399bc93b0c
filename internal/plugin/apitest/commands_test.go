package apitest

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func pinNamed(ctx context.Context, name string) *v1alpha1.BackendPin {
	GinkgoHelper()
	var pin v1alpha1.BackendPin
	Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pin)).To(Succeed())
	return &pin
}

var _ = Describe("Pinning", func() {
	AfterEach(func(ctx SpecContext) {
		Expect(admin.DeleteAllOf(ctx, &v1alpha1.BackendPin{}, client.InNamespace(namespace))).To(Succeed())
	})

	It("makes a pin, says until when, moves its end, and ends it", func(ctx SpecContext) {
		made := as("gamer").run(ctx, "pin", "default", "--backend", "hosted", "--for", "3h", "--reason", "game night")
		Expect(made.code).To(Equal(0), made.err)
		Expect(made.out).To(MatchRegexp(`^backendpin.spillway.dev/default-prefer-hosted created
default: requests go to hosted first, from now until .*\d\d:\d\d:\d\d UTC \(in (3h|2h59m)\)\.
End it earlier: kubectl spillway unpin default-prefer-hosted -n sirens-echo
$`))
		pin := pinNamed(ctx, "default-prefer-hosted")
		Expect(pin.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPinnedBy, "gamer"))
		Expect(pin.Spec.Duration).To(BeEquivalentTo("3h"))
		Expect(pin.Spec.Reason).To(Equal("game night"))

		By("moving its end with the same command")
		moved := as("gamer").run(ctx, "pin", "default", "--backend", "hosted", "--for", "5h")
		Expect(moved.code).To(Equal(0), moved.err)
		Expect(moved.out).To(HavePrefix("backendpin.spillway.dev/default-prefer-hosted changed\n"))
		pin = pinNamed(ctx, "default-prefer-hosted")
		Expect(pin.Spec.ExpiresAt.Time).To(BeTemporally("~", time.Now().Add(5*time.Hour), patience))
		Expect(pin.Spec.Reason).To(Equal("game night"), "it stays")

		By("listing and explaining it")
		listed := as("gamer").run(ctx, "pins")
		Expect(listed.out).To(MatchRegexp(`default-prefer-hosted +default +hosted first +Active +.*gamer +game night`))
		explained := as("gamer").run(ctx, "explain", "default")
		Expect(explained.out).To(ContainSubstring("A request goes to hosted first (pinned), then to tower."))
		Expect(explained.out).To(ContainSubstring("the route has no status yet"))

		By("ending it by the route")
		ended := as("gamer").run(ctx, "unpin", "default")
		Expect(ended).To(Equal(outcome{0, "backendpin.spillway.dev/default-prefer-hosted ended\n", ""}))
		Expect(as("gamer").run(ctx, "pins").err).To(HavePrefix("There is no pin in the namespace sirens-echo."))
	})

	It("replaces a pin that has ended", func(ctx SpecContext) {
		long := administrator.run(ctx, "pin", "default", "--backend", "hosted", "--for", "1h", "--name", "old")
		Expect(long.code).To(Equal(0), long.err)
		pin := pinNamed(ctx, "old")
		past := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		pin.Spec.Duration, pin.Spec.ExpiresAt = "", &past
		Expect(admin.Update(ctx, pin)).To(Succeed())
		again := administrator.run(ctx, "pin", "default", "--backend", "tower", "--mode", "avoid", "--for", "1h", "--name", "old")
		Expect(again.out).To(ContainSubstring("created, in place of one that had ended"), again.err)
		Expect(pinNamed(ctx, "old").Spec.Mode).To(Equal(v1alpha1.PinAvoid))
	})

	It("writes nothing with --dry-run", func(ctx SpecContext) {
		dry := administrator.run(ctx, "pin", "--all", "--backend", "hosted", "--for", "1h", "--dry-run", "-o", "yaml")
		Expect(dry.code).To(Equal(0), dry.err)
		Expect(dry.out).To(ContainSubstring("kind: BackendPin"))
		Expect(administrator.run(ctx, "pins").err).To(HavePrefix("There is no pin in the namespace sirens-echo."))
	})

	DescribeTable("shows the API server's refusal as it is",
		func(ctx SpecContext, who person, args []string, want string) {
			refused := who.run(ctx, append([]string{"pin"}, args...)...)
			Expect(refused.code).To(Equal(1))
			Expect(refused.out).To(BeEmpty())
			Expect(refused.err).To(ContainSubstring(want))
			Expect(refused.err).To(HavePrefix("Error from server ("))
		},
		Entry("of another route, by the policy", as("gamer"), []string{"fast", "--backend", "hosted", "--for", "1h"},
			`user "gamer" lacks the verb "pin" on llmroutes.spillway.dev/fast in namespace "sirens-echo"`),
		Entry("of every route, by the policy", as("gamer"), []string{"--all", "--backend", "hosted", "--for", "1h"},
			`user "gamer" lacks the verb "pin" on all llmroutes.spillway.dev in namespace "sirens-echo", which a pin with a selector needs`),
		Entry("by RBAC", as("stranger"), []string{"default", "--backend", "hosted", "--for", "1h"},
			`backendpins.spillway.dev is forbidden: User "stranger" cannot create resource "backendpins"`),
		Entry("by the schema", administrator, []string{"default", "--backend", "hosted", "--for", "1h", "--name", "Not_A_Name"}, "Not_A_Name"),
	)

	It("shows that the mode of a pin does not change", func(ctx SpecContext) {
		args := []string{"pin", "default", "--backend", "hosted", "--for", "1h", "--name", "mine"}
		Expect(administrator.run(ctx, args...).code).To(Equal(0))
		refused := administrator.run(ctx, append(args, "--mode", "only")...)
		Expect(refused.err).To(ContainSubstring("mode is immutable: delete the pin and make another."))
	})
})

var _ = Describe("Looking", func() {
	It("is refused in the API server's words where RBAC does not allow it", func(ctx SpecContext) {
		for _, args := range [][]string{{"status"}, {"pins"}, {"explain", "default"}, {"unpin", "--all"}} {
			refused := as("stranger").run(ctx, args...)
			Expect(refused.code).To(Equal(1))
			Expect(refused.err).To(HavePrefix("Error from server (Forbidden): "))
			Expect(refused.err).To(ContainSubstring(`User "stranger" cannot`))
		}
	})

	It("needs no permission on Secrets", func(ctx SpecContext) {
		Expect(as("gamer").run(ctx, "status").code).To(Equal(0))
		Expect(as("gamer").run(ctx, "explain", "default").code).To(Equal(0))
	})

	It("completes the names of routes and backends", func(ctx SpecContext) {
		Expect(as("gamer").run(ctx, "__complete", "status", "").out).To(HavePrefix("default\nfast\n:4"))
		Expect(as("gamer").run(ctx, "__complete", "pin", "default", "--backend", "").out).To(HavePrefix("hosted\ntower\n:4"))
		Expect(as("stranger").run(ctx, "__complete", "status", "").out).To(Equal(":4\n"), "trouble is silence")
	})

	It("shows no host of the spec, in any format", func(ctx SpecContext) {
		for _, format := range []string{"wide", "json", "yaml"} {
			for _, args := range [][]string{{"status"}, {"explain", "default"}} {
				seen := administrator.run(ctx, append(args, "-o", format)...)
				Expect(seen.code).To(Equal(0), seen.err)
				Expect(seen.out).To(And(ContainSubstring("default"), Not(ContainSubstring("tower.lan")), Not(ContainSubstring("example.com"))))
			}
		}
	})

	It("shows every change with --watch, until it is ended", func(ctx SpecContext) {
		watching, stop := context.WithCancel(ctx)
		var out, errOut buffer
		ended := make(chan int, 1)
		go func() { ended <- administrator.start(watching, &out, &errOut, "status", "fast", "--watch") }()
		Eventually(out.String).Should(ContainSubstring("fast has no status yet"))
		var route v1alpha1.LLMRoute
		Eventually(func(g Gomega) { // the watch begins some time after the first table
			g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "fast"}, &route)).To(Succeed())
			route.Status.State, route.Status.ObservedGeneration = v1alpha1.RouteSaturated, route.Generation
			route.Status.Backends = []v1alpha1.BackendStatus{{Name: "hosted", State: v1alpha1.BackendOpen, Reason: "Saturated"}}
			g.Expect(admin.Status().Update(ctx, &route)).To(Succeed())
			g.Expect(out.String()).To(MatchRegexp(`fast +Saturated .* hosted +Open`), errOut.String())
		}).Should(Succeed())
		stop()
		Eventually(ended).Should(Receive(Equal(0)))
		Expect(errOut.String()).To(BeEmpty())
	})
})

var _ = Describe("An API server that is not there", func() {
	It("is an error and no hang", func(ctx SpecContext) {
		lost := administrator.run(ctx, "status", "--server", "https://127.0.0.1:1")
		Expect(lost.code).To(Equal(1))
		Expect(lost.err).To(And(HavePrefix("Error: "), ContainSubstring("connection refused")))
	})
})
