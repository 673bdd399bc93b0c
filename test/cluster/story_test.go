//go:build linux

package cluster

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/hack/simbackend/sim"
)

// quick lets the sample tell its story in seconds instead of quarters of an hour. The cooldown has room for what is looked at
// meanwhile: a probe that meets the silent tower holds on to it for two minutes.
const quick = `{"spec":{"saturation":{"threshold":2,"slowAfter":"1s","cooldown":"15s","coldStartGrace":"1s"},"rateLimit":{"requests":50,"burst":100}}}`

// tellStory is the founding case through the Service: a game starts, the tower goes silent, traffic spills and sticks, a person
// pins, and the tower comes back.
func (c *cluster) tellStory(t *testing.T) {
	c.kubectl(t, "patch", "llmroute", "default", "-n", routes, "--type", "merge", "-p", quick)
	c.kubectl(t, "wait", "--for=condition=Ready", "llmroute/default", "-n", routes, "--timeout", patience.String())
	for _, chapter := range []struct {
		sentence string
		tell     func(*testing.T)
	}{
		{"the tower serves", c.towerServes},
		{"the tower is silent: traffic spills over and sticks", c.towerIsSilent},
		{"the tower is back: it serves again by itself", c.towerComesBack},
		{"a player pins the route with the plugin, and the pin ends", c.playerPins},
		{"a person reaches the proxies by port-forward", c.personForwards},
		{"the roles of manager and proxies were enough", c.rolesSuffice},
	} {
		if !t.Run(chapter.sentence, chapter.tell) {
			return
		}
	}
}

func (c *cluster) towerServes(t *testing.T) {
	g := NewWithT(t)
	c.eventuallyRoute(t, ".status.state", "Healthy")
	c.eventuallyRoute(t, ".status.serving", "tower")
	said := c.curl(t)
	g.Expect(said).To(ContainSubstring(`"content":"tower"`))
	g.Expect(said).To(ContainSubstring("data: [DONE]"))
	t.Log("\n" + c.kubectl(t, "get", "llmroutes", "-A"))
}

func (c *cluster) towerIsSilent(t *testing.T) {
	const enough = 8 // calls: two would do, if all went through one proxy or the other had heard of the first
	g := NewWithT(t)
	c.setMode(t, "tower", sim.Busy)
	calls := 0
	for state := ""; state != "Saturated"; calls++ {
		g.Expect(calls).To(BeNumerically("<", enough), "calls that met the silent tower")
		said := c.curl(t)
		g.Expect(said).To(And(ContainSubstring(`"content":"hosted"`), ContainSubstring("data: [DONE]")))
		if calls == 0 {
			g.Expect(said).To(ContainSubstring("backend_saturated"))
		}
		state = c.must(t)(c.get(t.Context(), routes, "llmroute/default", ".status.state"))
	}
	t.Logf("Saturated after %d calls", calls)
	c.eventuallyRoute(t, ".status.serving", "hosted")
	c.eventuallyRoute(t, `.status.backends[?(@.name=="tower")].proxies`, "2/2")
	status := c.kubectl(t, "spillway", "status", "default", "-n", routes)
	g.Expect(status).To(And(ContainSubstring("Saturated"), ContainSubstring("Open"), ContainSubstring("2/2")))
	t.Log("\n" + status)

	before := c.stats(t, "tower")
	for range 4 { // through either proxy
		said := c.curl(t)
		g.Expect(said).To(And(ContainSubstring(`"content":"hosted"`), Not(ContainSubstring("backend_saturated"))))
		g.Expect(strings.ToLower(said)).To(ContainSubstring("x-spillway-reason: breaker-open"))
	}
	after := c.stats(t, "tower")
	g.Expect(after.Requests-after.Synthetic).To(Equal(before.Requests-before.Synthetic), "callers that were sent to the tower")

	c.setMode(t, "tower", sim.Idle) // the game is over
	t.Log("\n" + c.kubectl(t, "get", "llmroutes", "-A", "-o", "wide"))
	c.eventually(t, "one Event says so", func(g Gomega) {
		events, err := c.try(t.Context(), "", c.node.Kubectl(), "get", "events", "-n", routes, "--field-selector", "reason=BackendSaturated", "-o", "name")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Fields(events)).To(HaveLen(1))
	})
}

func (c *cluster) towerComesBack(t *testing.T) {
	c.eventuallyRoute(t, ".status.state", "Healthy")
	c.eventuallyRoute(t, ".status.serving", "tower")
	c.eventually(t, "the tower serves", func(g Gomega) { g.Expect(c.curl(t)).To(ContainSubstring(`"content":"tower"`)) })
}

func (c *cluster) playerPins(t *testing.T) {
	c.apply(t, readFile(t, "..", "..", "config", "samples", "pinner.yaml"))
	c.eventually(t, "the player may pin", func(g Gomega) {
		said, err := c.try(t.Context(), "", c.node.Kubectl(), "spillway", "pin", "default", "-n", routes, "--backend", "hosted", "--for", "10s",
			"--reason", "game night", "--as", "gamer")
		g.Expect(err).NotTo(HaveOccurred())
		t.Log("\n" + said)
	})
	c.eventually(t, "PINNED says so", func(g Gomega) {
		g.Expect(c.get(t.Context(), routes, "llmroute/default", ".status.pinned")).To(HavePrefix("hosted until "))
	})
	NewWithT(t).Expect(c.curl(t)).To(ContainSubstring(`"content":"hosted"`))
	pins := c.kubectl(t, "get", "backendpins", "-n", routes)
	NewWithT(t).Expect(pins).To(And(ContainSubstring("gamer"), ContainSubstring("game night"), ContainSubstring("Active")))
	t.Log("\n" + pins)
	c.eventuallyRoute(t, ".status.pinned", "")
	c.eventually(t, "the tower serves again", func(g Gomega) { g.Expect(c.curl(t)).To(ContainSubstring(`"content":"tower"`)) })
}

// personForwards is what NOTES.txt and the plugin do from outside of the cluster.
func (c *cluster) personForwards(t *testing.T) {
	g := NewWithT(t)
	g.Expect(c.kubectl(t, "spillway", "chat", "default", "hello", "-n", routes, "--max-tokens", "3")).To(ContainSubstring("tower says hello"))

	forward := c.command(t.Context(), c.node.Kubectl(), "port-forward", "-n", namespace, "service/spillway-proxy", ":80")
	out, err := forward.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(forward.Start()).To(Succeed())
	defer func() {
		_ = forward.Process.Kill()
		_ = forward.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	_, address, found := strings.Cut(line, "Forwarding from ")
	address, _, _ = strings.Cut(address, " ")
	g.Expect(found).To(BeTrue(), line)
	g.Expect(c.curlTo(t, "http://"+address)).To(ContainSubstring(`"content":"tower"`))
}

// rolesSuffice looks for requests that the API server refused: a role that lacks something shows nowhere else.
func (c *cluster) rolesSuffice(t *testing.T) {
	for _, component := range []string{"manager", "proxy"} {
		log := c.kubectl(t, "logs", "-n", namespace, "-l", "app.kubernetes.io/component="+component, "--tail=-1")
		for line := range strings.Lines(log) {
			if strings.Contains(strings.ToLower(line), "forbidden") {
				t.Errorf("%s: %s", component, line)
			}
		}
	}
}

// curl makes one streamed call through the Service and returns all that came back, headers first.
func (c *cluster) curl(t *testing.T) string {
	t.Helper()
	return c.curlTo(t, c.service(t))
}

func (c *cluster) curlTo(t *testing.T, url string) string {
	t.Helper()
	return c.must(t)(c.try(t.Context(), "", "curl", "-sSNi", "--max-time", "60", url+"/v1/chat/completions", "-H", "Content-Type: application/json",
		"-d", `{"model":"sirens-echo/default","stream":true,"max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`))
}

// eventuallyRoute waits until a field of the sample says what it should.
func (c *cluster) eventuallyRoute(t *testing.T, path, want string) {
	t.Helper()
	c.eventually(t, path, func(g Gomega) {
		g.Expect(c.get(t.Context(), routes, "llmroute/default", path)).To(Equal(want))
	})
}

// backendURL is the own address of a simulated backend.
func (c *cluster) backendURL(t *testing.T, name string) string {
	t.Helper()
	return "http://" + c.must(t)(c.get(t.Context(), routes, "pod/"+name, ".status.podIP")) + ":8080"
}

func (c *cluster) setMode(t *testing.T, backend string, mode sim.Mode) {
	t.Helper()
	response, err := http.Post(c.backendURL(t, backend)+"/mode", "text/plain", strings.NewReader(string(mode)))
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(response.Body)
	if response.Body.Close(); err != nil || response.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("set mode: %s: %s, %v", response.Status, said, err)
	}
}

func (c *cluster) stats(t *testing.T, backend string) sim.Stats {
	t.Helper()
	response, err := http.Get(c.backendURL(t, backend) + "/stats")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var stats sim.Stats
	if err := json.NewDecoder(response.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	return stats
}
