//go:build linux

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRelease takes one release through its life.
func TestRelease(t *testing.T) {
	c := start(t)
	for _, part := range []struct {
		sentence string
		run      func(*testing.T)
	}{
		{"backends are there", c.makeBackends},
		{"installed with default values, manager and proxies are Ready as restricted Pods", c.install},
		{"the sample route is served, and one for the load", c.serveSample},
		{"an upgrade and rollouts cut no stream and refuse nobody", c.rollOut},
		{"a proxy that is killed takes only its own streams with it", c.killProxy},
		{"the founding case is told through the Service", c.tellStory},
		{"an uninstall leaves routes, pins and their kinds, and no other trace", c.uninstall},
		{"the namespace of an operator and its routes can be deleted at once", c.deleteNamespace},
		{"the kinds can be deleted under a running operator", c.deleteKinds},
	} {
		if !t.Run(part.sentence, part.run) {
			return // what comes next builds on it
		}
	}
}

// makeBackends comes before the release, so that the inventory knows what was there without it.
func (c *cluster) makeBackends(t *testing.T) {
	c.makeNamespace(t)
	backends := readFile(t, "testdata", "backends.yaml")
	c.eventually(t, "the namespace has the ServiceAccount that its Pods need", func(g Gomega) {
		_, err := c.try(t.Context(), backends, c.node.Kubectl(), "apply", "-f", "-")
		g.Expect(err).NotTo(HaveOccurred())
	})
	c.kubectl(t, "wait", "--for=condition=Ready", "pod", "--all", "-n", routes, "--timeout", patience.String())
	c.before = c.inventory(t)
}

func (c *cluster) makeNamespace(t *testing.T) {
	t.Helper()
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+", labels: {pod-security.kubernetes.io/enforce: restricted}}}")
}

func (c *cluster) install(t *testing.T) {
	c.helm(t, "install", release, c.chart(previous), "--wait", "--timeout", patience.String())
	for _, component := range []string{"manager", "proxy"} {
		got := c.kubectl(t, "get", "pods", "-n", namespace, "-l", "app.kubernetes.io/component="+component,
			"-o", `jsonpath={range .items[*]}{.spec.serviceAccountName} {.status.conditions[?(@.type=="Ready")].status} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
		NewWithT(t).Expect(strings.Split(strings.TrimSpace(got), "\n")).To(HaveExactElements("spillway-"+component+" True 0", "spillway-"+component+" True 0"))
	}
}

// serveSample applies the sample as it is, but for the hosts of its backends.
func (c *cluster) serveSample(t *testing.T) {
	sample := strings.NewReplacer(
		"http://tower.lan:11434/v1", "http://tower."+routes+".svc:11434/v1",
		"https://api.example.com/v1", "http://hosted."+routes+".svc:11434/v1",
	).Replace(readFile(t, "..", "..", "config", "samples", "route.yaml"))
	c.apply(t, sample)
	c.apply(t, readFile(t, "testdata", "steady.yaml"))
	c.kubectl(t, "wait", "--for=condition=Ready", "llmroute", "--all", "-n", routes, "--timeout", patience.String())
	t.Log("\n" + c.kubectl(t, "get", "llmroutes", "-A"))
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
