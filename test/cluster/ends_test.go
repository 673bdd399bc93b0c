//go:build linux

package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// endWithin is how long anything of Spillway may take to go. Nothing that it makes has a finalizer.
const endWithin = time.Minute

// passing kinds come and go with everything that a cluster does.
var passing = []string{"Event", "Lease", "Pod", "EndpointSlice", "Endpoints", "PodMetrics", "ComponentStatus"}

// inventory lists every object of the cluster as "Kind namespace/name", but for those of passing kinds elsewhere.
func (c *cluster) inventory(t *testing.T) []string {
	t.Helper()
	kinds := strings.Fields(c.kubectl(t, "api-resources", "--verbs=list", "-o", "name"))
	all := c.kubectl(t, "get", strings.Join(kinds, ","), "-A", "--ignore-not-found", "--no-headers",
		"-o", "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name")
	var objects []string
	for line := range strings.Lines(all) {
		fields := strings.Fields(line)
		if len(fields) == 3 && (fields[1] == namespace && fields[0] != "Event" || !slices.Contains(passing, fields[0])) {
			objects = append(objects, fields[0]+" "+fields[1]+"/"+fields[2])
		}
	}
	slices.Sort(objects)
	return slices.Compact(objects)
}

// stays says what an uninstall leaves: the kinds, with what the API server makes of them, and what people made themselves.
func stays(object string) bool {
	kind, _, _ := strings.Cut(object, " ")
	return slices.Contains([]string{"CustomResourceDefinition", "APIService"}, kind) && strings.HasSuffix(object, ".spillway.dev") ||
		strings.HasPrefix(object, kind+" "+routes+"/")
}

// uninstall leaves no trace in the release's namespace and in the cluster.
func (c *cluster) uninstall(t *testing.T) {
	c.helm(t, "uninstall", release, "--wait", "--timeout", patience.String())
	c.eventually(t, "nothing is left but kinds, routes and pins", func(g Gomega) {
		var left []string
		for _, object := range c.inventory(t) {
			if !stays(object) && !slices.Contains(c.before, object) {
				left = append(left, object)
			}
		}
		g.Expect(left).To(BeEmpty())
	})
	NewWithT(t).Expect(c.get(t.Context(), routes, "llmroutes", ".items[*].metadata.name")).To(Equal("default steady"))
	c.gone(t, "llmroute", "default", "-n", routes)
}

// deleteNamespace removes an operator and its routes all at once.
func (c *cluster) deleteNamespace(t *testing.T) {
	c.helm(t, "install", release, c.chart(current), "--wait", "--timeout", patience.String())
	c.apply(t, strings.ReplaceAll(readFile(t, "testdata", "steady.yaml"), "namespace: "+routes, "namespace: "+namespace))
	c.kubectl(t, "wait", "--for=condition=Accepted", "llmroute/steady", "-n", namespace, "--timeout", patience.String())
	began := time.Now()
	c.kubectl(t, "delete", "namespace", namespace, "--wait=false")
	c.kubectl(t, "wait", "--for=delete", "pod", "--all", "-n", namespace, "--timeout", patience.String())
	t.Logf("its Pods went in %.1f s", time.Since(began).Seconds())
	if os.Getenv("FULL") == "" {
		// Kubernetes deletes the Pods first, and looks again only after half of their grace period, which is 165 s for a proxy,
		// unless the Namespace changes.
		c.kubectl(t, "annotate", "namespace", namespace, "looked-at=again")
	}
	c.kubectl(t, "wait", "--for=delete", "namespace/"+namespace, "--timeout", patience.String())
	t.Logf("the namespace went in %.1f s", time.Since(began).Seconds())
}

// deleteKinds removes the CRDs under a running operator, with routes and reports of theirs.
func (c *cluster) deleteKinds(t *testing.T) {
	c.makeNamespace(t)
	c.helm(t, "install", release, c.chart(current), "--wait", "--timeout", patience.String())
	c.gone(t, "crd", "llmroutes.spillway.dev", "backendpins.spillway.dev", "proxyreports.spillway.dev")
}

// gone deletes objects and fails the test where they are not gone in time.
func (c *cluster) gone(t *testing.T, args ...string) {
	t.Helper()
	began := time.Now()
	c.kubectl(t, append([]string{"delete", "--timeout", endWithin.String()}, args...)...)
	t.Logf("%s went in %.1f s", strings.Join(args[:2], " "), time.Since(began).Seconds())
}
