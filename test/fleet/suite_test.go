package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

const (
	proxies = 5
	// patience is for what has no bound of its own: it bounds a failure. Programs hold a token that is not valid any more for a minute.
	patience = 3 * time.Minute
	// team is the namespace of the routes.
	team = "team"
)

var (
	system  *stack.Stack
	backend *backends
	line    *stack.Forwarder // between the last proxy and the API server
)

func TestFleet(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	root, err := stack.FindRoot()
	Expect(err).NotTo(HaveOccurred())
	backend = newBackends()
	DeferCleanup(backend.Close)
	listen := slices.Repeat([]string{"127.0.0.1:0"}, proxies-1)
	system, err = stack.Start(ctx, stack.Options{Root: root, Dir: GinkgoT().TempDir(), Listen: listen, Audit: true, Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(system.Stop()).To(Succeed()) })
	line, err = stack.NewForwarder(system.APIServer())
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(line.Close)
	_, err = system.StartProxyVia(ctx, "127.0.0.1:0", line.Addr())
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+team+"}\n")
})

func apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := system.Admin().Apply(ctx, manifest)
	Expect(err).NotTo(HaveOccurred())
}

// route applies a route from the backend NAME-tower to NAME-hosted and waits until all proxies serve it.
func route(ctx context.Context, name, more string) {
	GinkgoHelper()
	apply(ctx, manifest(name, more))
	ready(ctx, name)
}

func manifest(name, more string) string {
	return fmt.Sprintf(`---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  chain:
  - {name: tower, url: '%[3]s', model: m}
  - {name: hosted, url: '%[4]s', model: m}
  %[5]s
`, name, team, backend.url(name+"-tower"), backend.url(name+"-hosted"), more)
}

// Settings of routes: no limit on the rate, a short patience with backends.
const (
	unlimited = "rateLimit: {requests: 0}\n  "
	slow      = "saturation: {threshold: 3, slowAfter: 1s, coldStartGrace: 0s, cooldown: %s}\n  "
)

// ready waits until a route's generation is served by all proxies that there are.
func ready(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func() string {
		return field(ctx, name, "{.status.proxies} {.status.conditions[?(@.type=='Ready')].status} {.status.observedGeneration}")
	}).
		Should(Equal(fmt.Sprintf("%[1]d/%[1]d True %[2]s", len(system.Proxies), field(ctx, name, "{.metadata.generation}"))))
}

func field(ctx context.Context, name, path string) string {
	out, err := system.Admin().Get(ctx, stack.Objects{Kind: "llmroutes", Namespace: team, Name: name}, path)
	if err != nil {
		return err.Error()
	}
	return out
}

// answer is what a caller got.
type answer struct {
	status   int
	backend  string
	attempts string
}

// ask sends one streaming call to a route through a proxy and reads the answer to its end.
func ask(ctx context.Context, p *stack.Proxy, name string) (answer, error) {
	body := fmt.Sprintf(`{"model":"%s/%s","stream":true,"messages":[{"role":"user","content":"hi"}]}`, team, name)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	a := answer{response.StatusCode, response.Header.Get("X-Spillway-Backend"), response.Header.Get("X-Spillway-Attempts")}
	// On an early commit the header says nothing of the backend, a comment does.
	if _, said, found := bytes.Cut(text, []byte(`: {"state":"upstream_started"`)); found && a.backend == "" {
		var started struct{ Backend string }
		said, _, _ = bytes.Cut(said, []byte("\n"))
		_ = json.Unmarshal(append([]byte(`{"state":""`), said...), &started)
		a.backend = started.Backend
	}
	return a, err
}

func mustAsk(ctx context.Context, p *stack.Proxy, name string) answer {
	GinkgoHelper()
	a, err := ask(ctx, p, name)
	Expect(err).NotTo(HaveOccurred())
	Expect(a.status).To(Equal(http.StatusOK))
	return a
}

// transition is one line of a proxy's log about a breaker.
type transition struct {
	Time              time.Time
	Msg, To, Message  string
	Namespace, Reason string
	Adopted           bool
}

// transitions returns what a proxy's log says of breakers since an instant, the oldest first.
func transitions(p *stack.Proxy, since time.Time) []transition {
	GinkgoHelper()
	log, err := os.Open(p.LogPath)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = log.Close() }()
	var all []transition
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var t transition
		if json.Unmarshal(lines.Bytes(), &t) == nil && t.Msg == "breaker" && t.Time.After(since) {
			all = append(all, t)
		}
	}
	return all
}

// last returns the state that the log of each proxy ends with.
func last(since time.Time) func() []string {
	return func() []string {
		var states []string
		for _, p := range system.Proxies {
			state := ""
			for _, t := range transitions(p, since) {
				state = t.To
			}
			states = append(states, state)
		}
		return states
	}
}
