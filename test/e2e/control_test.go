package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/stack"
)

// patience bounds the wait for what the product does by itself. It bounds a failure; nothing is measured by it.
const patience = time.Minute

// control is a stack with two proxies, seen by somebody who has kubectl and sends traffic.
type control struct {
	*stack.Stack
	namespace string
}

// kubectl runs kubectl as the administrator, in the spec's own namespace.
func (c *control) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := c.Admin().Kubectl(ctx, append([]string{"-n", c.namespace}, args...)...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}

// apply applies a manifest; {ns}, {tower} and {hosted} stand for the namespace and the URLs of the simulated backends.
func (c *control) apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := c.Admin().Apply(ctx, c.fill(manifest))
	Expect(err).NotTo(HaveOccurred())
}

func (c *control) fill(manifest string) string {
	return strings.NewReplacer("{ns}", c.namespace, "{tower}", c.Backends["tower"].URL(), "{hosted}", c.Backends["hosted"].URL()).Replace(manifest)
}

// field reads one field, for Eventually; empty where the object is not there. Without a name it is one of the list of all.
func (c *control) field(ctx context.Context, kind, name, path string) func() string {
	return func() string {
		out, err := c.Admin().Get(ctx, stack.Objects{Kind: kind + "s", Namespace: c.namespace, Name: name}, "{"+path+"}")
		Expect(err).NotTo(HaveOccurred())
		return out
	}
}

// condition reads "Status/Reason" of a condition.
func (c *control) condition(ctx context.Context, kind, name, condition string) func() string {
	of := fmt.Sprintf(`.status.conditions[?(@.type==%q)]`, condition)
	return c.field(ctx, kind, name, of+".status}/{"+of+".reason")
}

// ready waits as a person would, with kubectl wait.
func (c *control) ready(ctx context.Context, routes ...string) {
	GinkgoHelper()
	c.kubectl(ctx, append([]string{"wait", "--for=condition=Ready", "--timeout=" + patience.String(), "llmroutes"}, routes...)...)
}

// events lists "Reason note" of the Events about an object.
func (c *control) events(ctx context.Context, name string) func() []string {
	return func() []string {
		out, err := c.Admin().Get(ctx, stack.Objects{Kind: "events", Namespace: c.namespace},
			fmt.Sprintf(`{range .items[?(@.involvedObject.name==%q)]}{.reason} {.message}{"\n"}{end}`, name))
		Expect(err).NotTo(HaveOccurred())
		return strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
	}
}

// versions lists every object that the manager writes, with its resourceVersion; leases and reports have a beat of their own.
func (c *control) versions(ctx context.Context) []string {
	out, err := c.Admin().Kubectl(ctx, "get", "llmroutes,backendpins,secrets,configmaps,events.events.k8s.io", "-A",
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	Expect(err).NotTo(HaveOccurred())
	return strings.Split(strings.TrimSpace(out), "\n")
}

// answer is what a caller of a route sees.
type answer struct {
	status  int
	backend string // X-Spillway-Backend
	model   string
}

// ask makes one call through a proxy. The sequence number travels to the backend.
func (c *control) ask(ctx context.Context, p *stack.Proxy, model string, seq int64) (a answer, err error) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"Say hello"}]}`, model)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(sequence, strconv.FormatInt(seq, 10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	var completion struct{ Model string }
	data, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(data, &completion)
	}
	return answer{response.StatusCode, response.Header.Get("X-Spillway-Backend"), completion.Model}, err
}

// mustAsk is ask of a call that must be answered.
func (c *control) mustAsk(ctx context.Context, p *stack.Proxy, model string) answer {
	GinkgoHelper()
	a, err := c.ask(ctx, p, model, 0)
	Expect(err).NotTo(HaveOccurred())
	return a
}

// sequence is the header by which a recorder tells calls apart.
const sequence = "X-Test-Sequence"

// recorder is a backend that remembers which credential each call came with.
type recorder struct {
	*httptest.Server
	mu          sync.Mutex
	credentials map[int64]string
	firsts      map[string]time.Time // when a credential came first
}

func record() *recorder {
	r := &recorder{credentials: map[int64]string{}, firsts: map[string]time.Time{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if seq, err := strconv.ParseInt(request.Header.Get(sequence), 10, 64); err == nil {
			r.note(seq, request.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}))
	DeferCleanup(r.Close)
	return r
}

func (r *recorder) note(seq int64, credential string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credentials[seq] = credential
	if _, known := r.firsts[credential]; !known {
		r.firsts[credential] = time.Now()
	}
}

// first says when a credential came first; the zero time where it never did.
func (r *recorder) first(credential string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.firsts[credential]
}

// since returns the distinct credentials of the calls after a sequence number.
func (r *recorder) since(seq int64) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for n, credential := range r.credentials {
		if n > seq {
			seen[credential] = true
		}
	}
	return seen
}

// traffic calls a model through all proxies without a pause.
type traffic struct {
	sent atomic.Int64 // sequence number of the last call that has begun
	mu   sync.Mutex
	bad  []string // what was not 200
	stop func()
}

func (c *control) traffic(ctx context.Context, model string) *traffic {
	t := &traffic{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var callers sync.WaitGroup
	for _, p := range c.Proxies[:2] {
		callers.Go(func() {
			for ctx.Err() == nil {
				a, err := c.ask(ctx, p, model, t.sent.Add(1))
				if ctx.Err() == nil && (err != nil || a.status != http.StatusOK) {
					t.mu.Lock()
					t.bad = append(t.bad, fmt.Sprintf("%s: %d %v", p.Name, a.status, err))
					t.mu.Unlock()
				}
			}
		})
	}
	t.stop = func() { cancel(); callers.Wait() }
	DeferCleanup(t.stop)
	return t
}

// failures ends the traffic and returns the calls that failed.
func (t *traffic) failures() []string {
	t.stop()
	return t.bad
}
