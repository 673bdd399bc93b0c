package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

// grouped is a route whose first two backends share their hardware.
const grouped = `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: grouped, namespace: '{ns}'}
spec:
  chain:
  - {name: chat, url: '{tower}', model: chat, capacityGroup: gpu}
  - {name: code, url: '{tower}', model: code, capacityGroup: gpu}
  - {name: hosted, url: '{hosted}', model: large}
  saturation: {threshold: 2, slowAfter: 1s, cooldown: 10m, coldStartGrace: 0s}
  rateLimit: {requests: 0}
`

// startsLeading waits until a manager of another process leads.
func (c *control) startsLeading(ctx context.Context, before string) {
	GinkgoHelper()
	Eventually(c.holder(ctx)).WithTimeout(2 * patience).ShouldNot(Or(BeEmpty(), Equal(before)))
}

func (c *control) holder(ctx context.Context) func() string {
	return func() string {
		out, err := c.Admin().Get(ctx, stack.Objects{Kind: "leases", Namespace: stack.Namespace, Name: "spillway-manager"}, "{.spec.holderIdentity}")
		Expect(err).NotTo(HaveOccurred())
		return out
	}
}

// stream makes a streamed call, whose silence counts, and reads it to its end.
func (c *control) stream(ctx context.Context, p *stack.Proxy, model string) {
	GinkgoHelper()
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":2,"messages":[{"role":"user","content":"Say hello"}]}`, model)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/chat/completions", strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	Expect(response).To(HaveHTTPBody(ContainSubstring("[DONE]")))
}

// describeFleet ends with no proxy left, so it comes last.
func describeFleet() {
	It("tells each backend that opens once, also of one moment and over a new manager", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, grouped)
		c.ready(ctx, "grouped")
		Expect(c.Backends["tower"].SetMode(ctx, "busy")).To(Succeed())
		for range 2 {
			c.stream(ctx, c.Proxies[0], c.namespace+"/grouped")
		}
		told := ConsistOf(
			MatchRegexp(`^BackendSaturated chat went quiet \(2 in a row\); hosted serves until \d\d:\d\dZ$`),
			MatchRegexp(`^BackendSaturated code shares hardware with a backend that is saturated; hosted serves until \d\d:\d\dZ$`))
		Eventually(c.events(ctx, "grouped")).WithTimeout(patience).Should(told)
		Eventually(c.field(ctx, "llmroute", "grouped", ".status.chain")).WithTimeout(patience).Should(Equal("chat!,code!,hosted"))
		Eventually(c.field(ctx, "llmroute", "grouped", ".status.backends[*].proxies")).WithTimeout(patience).Should(Equal("2/2 2/2"))

		version := c.field(ctx, "llmroute", "grouped", ".metadata.resourceVersion")()
		leader := c.holder(ctx)()
		Expect(syscall.Kill(c.Manager.PID(), syscall.SIGKILL)).To(Succeed()) // it is started again
		c.startsLeading(ctx, leader)
		Consistently(c.field(ctx, "llmroute", "grouped", ".metadata.resourceVersion"), "3s", "300ms").Should(Equal(version))
		Expect(c.events(ctx, "grouped")()).To(told)
	})

	It("forgets a proxy that was killed within a minute, over a new manager too, and knows nothing when all are gone", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", ""))
		c.ready(ctx, "default")
		start := time.Now()
		c.Proxies[1].Kill()
		proxies := c.field(ctx, "llmroute", "default", ".status.proxies")
		Eventually(proxies).WithTimeout(2 * patience).Should(Equal("1/1"))
		AddReportEntry("from the kill to the status", time.Since(start).String())
		Expect(c.condition(ctx, "llmroute", "default", "Ready")()).To(Equal("True/Ready"))

		// The dead proxy's report lies there for ten minutes; no manager may take it for a live one.
		leader := c.holder(ctx)()
		Expect(c.kubectl(ctx, "get", "proxyreports", "-n", stack.Namespace, "-o", "name")).To(ContainSubstring(c.Proxies[1].Name))
		Expect(c.Manager.Stop(patience)).To(Succeed())
		Expect(c.StartManager(ctx)).To(Succeed())
		c.startsLeading(ctx, leader)
		c.apply(ctx, route("default", "preferHeader: Ignore"))
		c.ready(ctx, "default")
		Consistently(proxies, "2s", "200ms").Should(Equal("1/1"))

		Expect(c.Proxies[0].Stop(patience)).To(Succeed())
		Eventually(proxies).WithTimeout(2 * patience).Should(Equal("0/0"))
		Expect(c.field(ctx, "llmroute", "default", ".status.state")()).To(Equal("Unknown"))
		for _, condition := range []string{"Programmed", "BackendsAvailable", "Ready"} {
			Expect(c.condition(ctx, "llmroute", "default", condition)()).To(Equal("Unknown/NoProxies"))
		}
		Expect(c.condition(ctx, "llmroute", "default", "Accepted")()).To(Equal("True/Accepted"))
		_, err := c.StartProxy(ctx, "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		c.ready(ctx, "default")
		Expect(proxies()).To(Equal("1/1"))
	})
}
