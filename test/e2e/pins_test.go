package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// pin is a manifest; how says the backend, the mode and the times.
func pin(name, how string) string {
	return fmt.Sprintf("apiVersion: spillway.dev/v1alpha1\nkind: BackendPin\nmetadata: {name: %s, namespace: '{ns}'}\nspec: {routes: {selector: {}}, %s}\n", name, how)
}

func instant(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// served says which backend answers through each proxy, "tower tower".
func (c *control) served(ctx context.Context, model string) func() string {
	return func() string {
		var backends []string
		for _, p := range c.Proxies[:2] {
			backends = append(backends, c.mustAsk(ctx, p, model).backend)
		}
		return strings.Join(backends, " ")
	}
}

func describePins() {
	It("lets the newest pin have the last word, and tells those that it overrules", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", "")+"---"+route("other", ""))
		c.ready(ctx, "default", "other")
		model := c.namespace + "/default"
		active := func(name string) func() string { return c.condition(ctx, "backendpin", name, "Active") }
		make := func(name, how string) {
			GinkgoHelper()
			c.apply(ctx, pin(name, how))
			Eventually(active(name)).WithTimeout(patience).Should(Equal("True/Active"))
			created := c.field(ctx, "backendpin", name, ".metadata.creationTimestamp")() // the next one is to be younger
			Eventually(func() string { return instant(time.Now()) }).Should(Not(Equal(created)))
		}
		make("a-prefer", "backend: hosted, mode: Prefer, duration: 1h")
		Eventually(c.served(ctx, model)).WithTimeout(patience).Should(Equal("hosted hosted"))
		Eventually(c.field(ctx, "backendpin", "a-prefer", ".status.routes")).WithTimeout(patience).Should(Equal(`["default","other"]`))
		make("b-only", "backend: tower, mode: Only, duration: 1h")
		Eventually(c.served(ctx, model)).WithTimeout(patience).Should(Equal("tower tower"))
		make("c-only", "backend: hosted, mode: Only, duration: 1h, reason: quiet please")
		Eventually(c.served(ctx, model)).WithTimeout(patience).Should(Equal("hosted hosted"))
		Eventually(active("b-only")).WithTimeout(patience).Should(Equal("False/Superseded"))
		Eventually(c.field(ctx, "llmroute", "other", ".status.pinned")).WithTimeout(patience).Should(MatchRegexp(`^only hosted until .*Z \(c-only\)$`))

		// An edit keeps a pin's age; ended early, it hands back to the one before.
		c.kubectl(ctx, "patch", "backendpin", "c-only", "--type=merge", "-p", `{"spec":{"duration":null,"expiresAt":"2020-01-01T00:00:00Z"}}`)
		Eventually(active("c-only")).WithTimeout(patience).Should(Equal("False/Expired"))
		Eventually(active("b-only")).WithTimeout(patience).Should(Equal("True/Active"))
		Eventually(c.served(ctx, model)).WithTimeout(patience).Should(Equal("tower tower"))
		Eventually(c.events(ctx, "c-only")).WithTimeout(patience).Should(ContainElement(
			"PinExpired the pin of hosted has ended: quiet please; other pins hold on"))
		c.kubectl(ctx, "patch", "backendpin", "b-only", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"startsAt":%q}}`, instant(time.Now().Add(time.Hour))))
		Eventually(active("b-only")).WithTimeout(patience).Should(Equal("False/Pending"))
		Eventually(c.served(ctx, model)).WithTimeout(patience).Should(Equal("hosted hosted"), "the Prefer is left")
		Expect(active("c-only")()).To(Equal("False/Expired"), "a pin that ended stays for its retention, whatever end it was given")
	})

	It("ends a pin with its deletion, also while something else keeps the object", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", ""))
		c.ready(ctx, "default")
		c.apply(ctx, pin("kept", "backend: hosted, mode: Only, duration: 1h"))
		Eventually(c.served(ctx, c.namespace+"/default")).WithTimeout(patience).Should(Equal("hosted hosted"))
		c.kubectl(ctx, "delete", "backendpin", "kept", "--cascade=foreground", "--wait=false") // nobody here collects it
		Eventually(c.served(ctx, c.namespace+"/default")).WithTimeout(patience).Should(Equal("tower tower"))
		Eventually(c.field(ctx, "backendpin", "kept", ".status.phase")).WithTimeout(patience).Should(Equal("Expired"))
		Eventually(c.field(ctx, "llmroute", "default", ".status.pinned")).WithTimeout(patience).Should(BeEmpty())
		c.kubectl(ctx, "patch", "backendpin", "kept", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})

	It("refuses what may not be edited, and rejects what lasts too long", func(ctx SpecContext) {
		c := newControl(ctx)
		c.apply(ctx, route("default", ""))
		c.apply(ctx, pin("game", "backend: hosted, mode: Prefer, duration: 1h"))
		for field, patch := range map[string]string{
			"backend": `{"backend":"tower"}`, "mode": `{"mode":"Only"}`, "routes": `{"routes":{"selector":{"matchLabels":{"a":"b"}}}}`,
		} {
			_, err := c.Admin().Kubectl(ctx, "-n", c.namespace, "patch", "backendpin", "game", "--type=merge", "-p", `{"spec":`+patch+`}`)
			Expect(err).To(MatchError(ContainSubstring(field + " is immutable: delete the pin and make another.")))
		}
		for name, how := range map[string]string{
			"eight-days": "duration: 192h", "by-its-end": fmt.Sprintf("expiresAt: %q", instant(time.Now().Add(8*24*time.Hour))),
		} {
			c.apply(ctx, pin(name, "backend: hosted, mode: Prefer, "+how))
			Eventually(c.condition(ctx, "backendpin", name, "Accepted")).WithTimeout(patience).Should(Equal("False/TooLong"))
			Expect(c.field(ctx, "backendpin", name, ".status.phase")()).To(Equal("Rejected"))
		}
		c.apply(ctx, pin("later", fmt.Sprintf("backend: hosted, mode: Prefer, duration: 168h, startsAt: %q", instant(time.Now().Add(24*time.Hour)))))
		Eventually(c.condition(ctx, "backendpin", "later", "Active")).WithTimeout(patience).Should(Equal("False/Pending"), "seven days count from the start")
		Expect(c.kubectl(ctx, "get", "llmroutes,backendpins", "-o", "jsonpath={.items[*].metadata.finalizers}")).
			To(BeEmpty(), "a namespace of ours could not be deleted without us")
	})
}
