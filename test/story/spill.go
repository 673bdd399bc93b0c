package story

import (
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // matchers read as sentences

	"github.com/spillway-dev/spillway/test/stack"
)

func (s *Story) aRouteIsApplied() {
	_, err := s.admin.Kubectl(s.ctx, "create", "namespace", namespace)
	s.must(err)
	s.apply(s.admin, s.route("tower", "hosted"))
	_, err = s.admin.Kubectl(s.ctx, "wait", "--for=condition=Ready", "llmroute/default", "-n", namespace, "--timeout", patience.String())
	s.must(err)
	s.showRoutes()
	for column, want := range map[string]string{".status.state": "Healthy", ".status.serving": "tower", ".status.proxies": "2/2"} {
		s.soon(column+" is "+want, s.field(column), Equal(want))
	}
}

func (s *Story) aCallerIsTold() {
	c := s.call(s.proxy(1))
	s.showCall(s.proxy(1), 1, c)
	s.that("the comments name the attempt and the first token", c.states(), Equal([]string{"attempt tower", "upstream_started tower"}))
	s.that("the tokens are the tower's", c.servedBy(), Equal("tower"))
	s.that("the stream is whole", c.complete, BeTrue())
}

func (s *Story) theTowerBecomesBusy() {
	s.setMode("tower", "busy")
	for number := range 2 {
		c := s.call(s.proxy(1))
		if number == 0 {
			s.showCall(s.proxy(1), 1, c)
		}
		s.that(fmt.Sprintf("call %d meets the busy tower, is told so, and gets hosted's tokens", number+1), c.states(),
			Equal([]string{"attempt tower", "backend_saturated tower", "attempt hosted", "upstream_started hosted"}))
		s.that("  ... whole", c.servedBy(), Equal("hosted"))
	}
	s.soon("kubectl says Saturated", s.field(".status.state"), Equal("Saturated"))
	s.soon("  ... on both proxies, of which the second never met the busy tower",
		s.field(`.status.backends[?(@.name=="tower")].proxies`), Equal("2/2"))
	s.showRoutes()
	s.showRoutes("-o", "wide")

	before := s.stats("tower")
	c := s.call(s.proxy(2))
	s.showCall(s.proxy(2), 2, c)
	s.that("proxy 2 goes straight to hosted", c.states(), Equal([]string{"attempt hosted", "upstream_started hosted"}))
	s.that("  ... and says why", c.reason, Equal("breaker-open"))
	s.that("  ... and asked the tower nothing", s.stats("tower").Requests, Equal(before.Requests))

	s.that("serving is hosted", s.status(".status.serving"), Equal("hosted"))
	s.that("RETRY says until when", s.status(".status.retryAt"), MatchRegexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`))
	s.soon("one Event says so", s.events("BackendSaturated"), Equal("1"))
	s.show(s.admin, "get", "events", "-n", namespace, "-o", "custom-columns=REASON:.reason,MESSAGE:.message",
		"--field-selector", "reason=BackendSaturated")
}

func (s *Story) theTowerComesBack() {
	s.setMode("tower", "idle")
	before := s.stats("tower")
	stop := s.callersMeanwhile()
	s.soon("kubectl says Healthy", s.field(".status.state"), Equal("Healthy"))
	s.soon("  ... on both proxies", s.field(`.status.backends[?(@.name=="tower")].proxies`), BeElementOf("", "2/2"))
	calls := stop()
	s.showRoutes()

	after := s.stats("tower")
	towerServed := 0
	for _, c := range calls {
		s.g.Expect(c.states()).To(HaveLen(2), "a caller met more than one backend while the tower came back:\n%s", strings.Join(c.seen, "\n"))
		if c.servedBy() == "tower" {
			towerServed++
		}
	}
	s.pass(fmt.Sprintf("%d calls were made meanwhile; each met one backend and got its answer", len(calls)))
	s.that("the proxies themselves asked the tower for one token", after.Synthetic-before.Synthetic, BeNumerically(">=", 1))
	s.that("every other request to it was a caller's that it answered",
		after.Requests-before.Requests, Equal(after.Synthetic-before.Synthetic+towerServed))
	s.soon("and the tower serves again", s.served(s.proxy(1)), Equal("tower"))
	s.soon("  ... through both proxies", s.served(s.proxy(2)), Equal("tower"))
}

// proxy returns a proxy by its number, counted from 1.
func (s *Story) proxy(number int) *stack.Proxy { return s.stack.Proxies[number-1] }

// status reads one field of the route once.
func (s *Story) status(path string) string {
	value, err := s.field(path)()
	s.must(err)
	return value
}

// events counts the Events of the route with a reason.
func (s *Story) events(reason string) func() (string, error) {
	return func() (string, error) {
		out, err := s.admin.Get(s.ctx, stack.Objects{Kind: "events", Namespace: namespace}, fmt.Sprintf("{.items[?(@.reason==%q)].metadata.name}", reason))
		return fmt.Sprint(len(strings.Fields(out))), err
	}
}

// callersMeanwhile lets a caller on each proxy ask one thing after the other until stop, which returns all their calls.
func (s *Story) callersMeanwhile() (stop func() []*call) {
	const pause = 200 * time.Millisecond
	done := make(chan struct{})
	var mu sync.Mutex
	var calls []*call
	var failures []error
	var wg sync.WaitGroup
	for _, p := range s.stack.Proxies[:2] {
		wg.Go(func() {
			for {
				c, err := s.tryCall(p)
				mu.Lock()
				if err != nil {
					failures = append(failures, err)
				} else {
					calls = append(calls, c)
				}
				mu.Unlock()
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	return func() []*call {
		close(done)
		wg.Wait()
		s.g.Expect(failures).To(BeEmpty(), "every caller must get an answer")
		return calls
	}
}
