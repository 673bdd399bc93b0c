//go:build linux

package cluster

import (
	"cmp"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// rollouts of each Deployment, one after the other.
const (
	rollouts     = 10
	rolloutsFull = 40
)

// rollOut upgrades the release and restarts both Deployments again and again, under load.
func (c *cluster) rollOut(t *testing.T) {
	load := startLoad(t.Context(), c.service(t))

	began := time.Now()
	c.helm(t, "upgrade", release, c.chart(current), "--wait", "--timeout", patience.String())
	t.Logf("the upgrade took %.0f s", time.Since(began).Seconds())
	images := c.kubectl(t, "get", "pods", "-n", namespace, "--field-selector=status.phase=Running", "-o", `jsonpath={.items[*].spec.containers[0].image}`)
	NewWithT(t).Expect(images).To(ContainSubstring("spillway-proxy:"+current), "the Pods after the upgrade")

	began = time.Now()
	times := rollouts
	if os.Getenv("FULL") != "" {
		times = rolloutsFull
	}
	for range times {
		both := []string{"deployment/spillway-proxy", "deployment/spillway-manager"}
		c.kubectl(t, append([]string{"rollout", "restart", "-n", namespace}, both...)...)
		for _, deployment := range both {
			c.kubectl(t, "rollout", "status", deployment, "-n", namespace, "--timeout", patience.String())
		}
	}
	t.Logf("%d rollouts of each took %.0f s", times, time.Since(began).Seconds())
	load.wait(t)
}

// service is the address of the proxies' Service.
func (c *cluster) service(t *testing.T) string {
	t.Helper()
	return "http://" + c.kubectl(t, "get", "service", "spillway-proxy", "-n", namespace, "-o", "jsonpath={.spec.clusterIP}")
}

// killProxy ends one of two proxies without any grace, while both have streams.
func (c *cluster) killProxy(t *testing.T) {
	const each, tokens = 10, 40 // of 200 ms
	g := NewWithT(t)
	pods := c.readyProxies(t)
	g.Expect(pods).To(HaveLen(2), "proxies that are ready and stay")
	type result struct {
		pod string
		err error
	}
	results := make(chan result, each*len(pods))
	begun := make(chan struct{}, each*len(pods))
	for _, pod := range pods {
		for range each {
			go func() {
				transport := &http.Transport{DisableKeepAlives: true}
				response, err := post(t.Context(), transport, "http://"+pod.address+":8080", streamBody(tokens))
				begun <- struct{}{}
				if err == nil {
					err = errors.Join(readStream(response.Body, tokens), response.Body.Close())
				}
				results <- result{pod.name, err}
			}()
		}
	}
	for range cap(begun) {
		<-begun
	}
	killed := pods[0].name
	c.kubectl(t, "delete", "pod", killed, "-n", namespace, "--force", "--grace-period=0")
	at := time.Now()
	cut := 0
	for range cap(results) {
		r := <-results
		if r.pod == killed && r.err != nil {
			cut++
		} else if r.err != nil {
			t.Errorf("a stream of the proxy that lives: %v", r.err)
		}
	}
	g.Expect(cut).To(Equal(each), "streams of the proxy that was killed that were cut")
	c.eventually(t, "the report of the proxy that was killed is gone", func(g Gomega) {
		reports, err := c.get(t.Context(), namespace, "proxyreports", ".items[*].metadata.name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reports).NotTo(ContainSubstring(killed))
	})
	took := time.Since(at)
	g.Expect(took).To(BeNumerically("<", time.Minute), "time until its report was gone")
	t.Logf("its report was gone %.1f s after its end, or before we looked", took.Seconds())
	c.eventually(t, "another proxy takes its place", func(g Gomega) {
		g.Expect(c.get(t.Context(), routes, "llmroute/steady", ".status.proxies")).To(Equal("2/2"))
	})
}

// proxyPod is a proxy by its own address.
type proxyPod struct{ name, address string }

// readyProxies are those that are ready and not about to end, by name.
func (c *cluster) readyProxies(t *testing.T) []proxyPod {
	t.Helper()
	const each = `{range .items[*]}{.metadata.deletionTimestamp}|{.status.conditions[?(@.type=="Ready")].status}|{.metadata.name}|{.status.podIP}{"\n"}{end}`
	var pods []proxyPod
	for line := range strings.Lines(c.kubectl(t, "get", "pods", "-n", namespace, "-l", "app.kubernetes.io/component=proxy", "-o", "jsonpath="+each)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) == 4 && cmp.Or(fields[0], "stays") == "stays" && fields[1] == "True" {
			pods = append(pods, proxyPod{fields[2], fields[3]})
		}
	}
	return pods
}
