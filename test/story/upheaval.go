package story

import (
	"fmt"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // matchers read as sentences

	"github.com/spillway-dev/spillway/test/stack"
)

// stopGrace is how long a program may take to end.
const stopGrace = 30 * time.Second

func (s *Story) theChainIsEdited() {
	pids := s.pids()
	running, err := open(s.ctx, s.proxy(1), Tokens)
	s.must(err)
	for running.servedBy() == "" && running.next() {
	}
	s.that("a long stream of the tower's is running", running.servedBy(), Equal("tower"))

	_, err = s.admin.Apply(s.ctx, s.route("hosted", "tower"))
	s.must(err)
	applied := time.Now()
	s.note("the chain is now hosted, tower")
	for number := range 2 {
		s.soon(fmt.Sprintf("proxy %d serves the new chain", number+1), s.served(s.proxy(number+1)), Equal("hosted"))
	}
	took := time.Since(applied)
	s.that(fmt.Sprintf("  ... both of them %.2f s after the edit", took.Seconds()), took, BeNumerically("<", time.Second))
	s.that("  ... while the stream was still running", running.complete, BeFalse())

	for running.next() {
	}
	s.that("the running stream ended whole, on the table that it started with", running.complete, BeTrue())
	s.that("  ... with the tower's tokens", running.servedBy(), Equal("tower"))
	s.that("no process was restarted", s.pids(), Equal(pids))

	_, err = s.admin.Apply(s.ctx, s.route("tower", "hosted"))
	s.must(err)
	for number := range 2 {
		s.soon(fmt.Sprintf("edited back, proxy %d serves the tower", number+1), s.served(s.proxy(number+1)), Equal("tower"))
	}
}

func (s *Story) pids() []int {
	pids := []int{s.stack.Manager.PID()}
	for _, p := range s.stack.Proxies {
		s.g.Expect(p.Running()).To(BeTrue(), p.Name+" must be running")
		pids = append(pids, p.PID())
	}
	return pids
}

func (s *Story) theManagerIsStopped() {
	s.applyWhenAllowed(pin("last-words", "default", "hosted", 10*time.Second))
	s.soon("the pin is active", s.pinField("last-words", ".status.phase"), Equal("Active"))
	s.must(s.stack.Manager.Stop(stopGrace))
	s.note("the manager has stopped")
	s.endsToTheSecond("last-words")

	p, err := s.stack.StartProxy(s.ctx, "127.0.0.1:0")
	s.must(err)
	s.that("a third proxy, freshly started, serves from the published table", s.call(p).servedBy(), Equal("tower"))

	s.must(s.stack.StartManager(s.ctx))
	s.note("the manager is started again")
	s.soon("kubectl counts three proxies", s.field(".status.proxies"), Equal("3/3"))
	s.soon("PINNED is empty", s.field(".status.pinned"), BeEmpty())
	s.showRoutes()
}

func (s *Story) theAPIServerIsStopped() {
	const outlastsTheRestart = 20 * time.Second
	_, err := s.admin.Apply(s.ctx, s.routeCoolingFor(outlastsTheRestart, "tower", "hosted"))
	s.must(err)
	s.note("the cooldown is now %s", outlastsTheRestart)
	s.soon("all three proxies serve that", s.programmed, Equal("True"))
	s.must(s.stack.StopAPIServer())
	s.note("the API server has stopped")
	for number, p := range s.stack.Proxies {
		s.that(fmt.Sprintf("proxy %d serves on", number+1), s.call(p).servedBy(), Equal("tower"))
	}
	s.setMode("tower", "busy")
	for number := range 2 {
		s.that(fmt.Sprintf("call %d spills over, as proxy 1 knows by itself", number+1), s.call(s.proxy(1)).servedBy(), Equal("hosted"))
	}
	s.that("  ... and sticks", s.call(s.proxy(1)).states(), Equal([]string{"attempt hosted", "upstream_started hosted"}))

	s.setMode("tower", "idle")

	s.must(s.stack.StartAPIServer(s.ctx))
	s.note("the API server is back")
	s.soon("what proxy 1 learned meanwhile reaches the others: kubectl says Saturated", s.field(".status.state"), Equal("Saturated"))
	s.soon("  ... on all three proxies", s.field(`.status.backends[?(@.name=="tower")].proxies`), Equal("3/3"))
	s.showRoutes()
	s.soon("and at last Healthy again", s.field(".status.state"), Equal("Healthy"))
	s.soon("  ... served by the tower through every proxy", s.allServed, Equal("tower tower tower"))
	s.soon("every route is Ready", s.allReady, Equal("True True"))
	s.showRoutes()
}

// programmed says whether every live proxy serves the route as it was last written.
func (s *Story) programmed() (string, error) {
	out, err := s.admin.Get(s.ctx, stack.Objects{Kind: "llmroutes", Namespace: namespace, Name: "default"},
		`{.metadata.generation} {.status.conditions[?(@.type=="Programmed")].observedGeneration} {.status.conditions[?(@.type=="Programmed")].status}`)
	var generation, observed int64
	var status string
	if _, scanErr := fmt.Sscan(out, &generation, &observed, &status); err != nil || scanErr != nil || observed != generation {
		return "", err
	}
	return status, nil
}

// allServed makes one call through each proxy and says who answered.
func (s *Story) allServed() (string, error) {
	names := ""
	for _, p := range s.stack.Proxies {
		name, err := s.served(p)()
		if err != nil {
			return "", err
		}
		names += " " + name
	}
	return names[1:], nil
}

func (s *Story) allReady() (string, error) {
	return s.admin.Get(s.ctx, stack.Objects{Kind: "llmroutes"}, `{.items[*].status.conditions[?(@.type=="Ready")].status}`)
}
