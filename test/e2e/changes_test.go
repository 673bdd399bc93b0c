package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

// shared is the stack of the suites of the control plane; each spec has a namespace of its own.
var shared *stack.Stack

var specs int

// newControl makes a namespace for one spec.
func newControl(ctx context.Context) *control {
	GinkgoHelper()
	specs++
	c := &control{Stack: shared, namespace: fmt.Sprintf("team-%d", specs)}
	c.apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{ns}'}\n")
	DeferCleanup(func(ctx SpecContext) {
		c.kubectl(ctx, "delete", "llmroutes,backendpins", "--all")
		for _, b := range c.Backends {
			Expect(b.SetMode(ctx, "idle")).To(Succeed())
		}
	})
	return c
}

// plain is a route over both backends that limits nobody; {name} and {more} are to be replaced.
const plain = `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: {name}, namespace: '{ns}'}
spec:
  chain:
  - {name: tower, url: '{tower}', model: small}
  - {name: hosted, url: '{hosted}', model: large}
  saturation: {threshold: 2, slowAfter: 1s, cooldown: 15s, coldStartGrace: 0s}
  rateLimit: {requests: 0}
  {more}
`

func route(name, more string) string {
	return strings.NewReplacer("{name}", name, "{more}", more).Replace(plain)
}

var _ = Describe("The control plane", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		root, err := stack.FindRoot()
		Expect(err).NotTo(HaveOccurred())
		shared, err = stack.Start(ctx, stack.Options{
			Root: root, Dir: GinkgoT().TempDir(), Backends: map[string]string{"tower": "127.0.0.1:0", "hosted": "127.0.0.1:0"}, Tokens: 2,
			Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Progress: GinkgoWriter,
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(shared.Stop()).To(Succeed()) })
	})

	describeChanges()
	describePins()
	describeFleet()
})

func describeChanges() {
	It("says Ready only when every proxy serves the edit, in whatever order things happen", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", "responseModel: Logical"))
		for turn := range 6 {
			kind, want := "Physical", "small"
			if turn%2 == 1 {
				kind, want = "Logical", c.namespace+"/default"
			}
			if turn < 4 {
				c.apply(ctx, route("default", "responseModel: "+kind))
			} else { // deleted and made again: the generation is 1 as before
				_, err := c.Admin().KubectlStdin(ctx, c.fill(route("default", "responseModel: "+kind)), "replace", "--force", "-f", "-")
				Expect(err).NotTo(HaveOccurred())
			}
			c.ready(ctx, "default")
			for _, p := range c.Proxies {
				Expect(c.mustAsk(ctx, p, c.namespace+"/default").model).To(Equal(want), "turn %d through %s", turn, p.Name)
			}
		}
		generation := c.kubectl(ctx, "get", "llmroute", "default", "-o", "jsonpath={.metadata.generation}")
		Expect(strings.Fields(c.kubectl(ctx, "get", "llmroute", "default", "-o", "jsonpath={.status.conditions[*].observedGeneration}"))).
			To(HaveEach(generation))
	})

	It("puts a rotated Secret into use at once, and no call on the old one after the proxies report it", func(ctx SpecContext) {
		c, backend := newControl(ctx), record()
		secret := func(key, value string) {
			c.apply(ctx, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: '{ns}'}\nstringData: {%s: %q}\n", key, value))
		}
		manifest := strings.Replace(route("default", ""), "url: '{tower}'", "auth: {secretRef: {name: key, key: token}}, url: '"+backend.URL+"'", 1)
		secret("token", "first\n")
		c.apply(ctx, manifest)
		c.ready(ctx, "default")
		calls := c.traffic(ctx, c.namespace+"/default")
		var took []time.Duration // from a rotation to the first call on the new key
		for _, value := range []string{"second", "third"} {
			revisions := c.reported(ctx)
			secret("token", value)
			start := time.Now()
			Eventually(c.reportedOther(ctx, revisions)).WithTimeout(patience).WithPolling(20 * time.Millisecond).Should(BeTrue())
			reported := calls.sent.Load() // calls that have begun may still be under way with the old table
			AddReportEntry("from the rotation to the proxies' reports", time.Since(start).String())
			Eventually(func() map[string]bool { return backend.since(reported) }).WithTimeout(patience).ShouldNot(BeEmpty())
			Consistently(func() map[string]bool { return backend.since(reported) }, "500ms").Should(Equal(map[string]bool{"Bearer " + value: true}))
			took = append(took, backend.first("Bearer "+value).Sub(start))
		}
		// A busy machine may need more for one of them; what goes by a timer would be seen in both.
		Expect(slices.Min(took)).To(BeNumerically("<", 2*time.Second))
		c.kubectl(ctx, "delete", "secret", "key")
		Eventually(c.condition(ctx, "llmroute", "default", "ResolvedRefs")).WithTimeout(patience).Should(Equal("False/SecretNotFound"))
		Eventually(c.field(ctx, "llmroute", "default", ".status.serving")).WithTimeout(patience).Should(Equal("hosted"), "the rest of the chain serves")
		Expect(c.condition(ctx, "llmroute", "default", "Ready")()).To(Equal("True/Ready"))
		secret("other", "fourth")
		Eventually(c.condition(ctx, "llmroute", "default", "ResolvedRefs")).WithTimeout(patience).Should(Equal("False/KeyNotFound"))
		c.apply(ctx, strings.Replace(manifest, "key: token", "key: other", 1))
		c.ready(ctx, "default")
		Expect(c.condition(ctx, "llmroute", "default", "ResolvedRefs")()).To(Equal("True/ResolvedRefs"))
		after := calls.sent.Load()
		Eventually(func() map[string]bool { return backend.since(after) }).WithTimeout(patience).Should(HaveKey("Bearer fourth"))
		Expect(calls.failures()).To(BeEmpty(), "no call may fail meanwhile")
		told := c.kubectl(ctx, "get", "llmroutes,events", "-o", "yaml")
		for _, value := range []string{"first", "second", "third", "fourth"} {
			Expect(told).NotTo(ContainSubstring(value), "a credential is told")
		}
	})

	It("hands a model over without a moment in which nobody has it", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("older", "model: shared-"+c.namespace))
		created := c.field(ctx, "llmroute", "older", ".metadata.creationTimestamp")()
		for name := range 3 { // in several shards; one that is made in the same second could come first by its name
			Eventually(func() string { return time.Now().UTC().Format(time.RFC3339) }).ShouldNot(Equal(created))
			c.apply(ctx, route(fmt.Sprintf("younger-%d", name), "model: shared-"+c.namespace))
		}
		c.ready(ctx, "older")
		for name := range 3 {
			Eventually(c.condition(ctx, "llmroute", fmt.Sprintf("younger-%d", name), "Accepted")).WithTimeout(patience).Should(Equal("False/ModelConflict"))
		}
		calls := c.traffic(ctx, "shared-"+c.namespace)
		c.kubectl(ctx, "delete", "llmroute", "older")
		Eventually(c.field(ctx, "llmroute", "", ".items[*].status.proxies")).
			WithTimeout(patience).Should(And(ContainSubstring("2/2"), Not(MatchRegexp("2/2.*2/2"))), "one of them takes over")
		Expect(calls.failures()).To(BeEmpty(), "the model was not served for a moment")
	})

	It("writes nothing while nothing changes, whatever traffic there is", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", ""))
		c.ready(ctx, "default")
		var before []string
		Eventually(func() bool {
			last := before
			before = c.versions(ctx)
			return slices.Equal(last, before)
		}).WithTimeout(patience).WithPolling(2*time.Second).Should(BeTrue(), "what came before settles")
		Consistently(func() []string { return c.versions(ctx) }, "1m", "5s").Should(Equal(before))
		calls := c.traffic(ctx, c.namespace+"/default")
		Eventually(calls.sent.Load).WithTimeout(2 * patience).Should(BeNumerically(">", 1000))
		Expect(calls.failures()).To(BeEmpty())
		Consistently(func() []string { return c.versions(ctx) }, "2s", "500ms").Should(Equal(before))
	})
}

// reported returns the revisions that each live proxy says it serves.
func (c *control) reported(ctx context.Context) map[string]string {
	out, err := c.Admin().Get(ctx, stack.Objects{Kind: "proxyreports", Namespace: stack.Namespace},
		`{range .items[*]}{.metadata.name}{" "}{.status.tables[*].revision}{"\n"}{end}`)
	Expect(err).NotTo(HaveOccurred())
	revisions := map[string]string{}
	for line := range strings.Lines(out) {
		name, of, _ := strings.Cut(strings.TrimSpace(line), " ")
		revisions[name] = of
	}
	return revisions
}

// reportedOther says whether every proxy serves another table than before.
func (c *control) reportedOther(ctx context.Context, before map[string]string) func() bool {
	return func() bool {
		for name, of := range c.reported(ctx) {
			if before[name] == of {
				return false
			}
		}
		return true
	}
}
