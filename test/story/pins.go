package story

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // matchers read as sentences

	"github.com/spillway-dev/spillway/test/stack"
)

func (s *Story) aPlayerPinsTheRoute() {
	var err error
	s.gamer, err = s.stack.AddUser("gamer")
	s.must(err)
	_, err = s.admin.Apply(s.ctx, gamerMayPin+"---\n"+s.quietRoute())
	s.must(err)
	s.note("gamer is bound to spillway-pinner, and holds the verb pin on llmroutes/default")

	before := s.stats("tower")
	s.applyWhenAllowed(pin("game-night", "default", "hosted", 8*time.Second))
	s.soon("PINNED says to which backend, until when, and by which pin", s.field(".status.pinned"),
		MatchRegexp(`^hosted until \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(game-night\)$`))
	s.showRoutes()
	s.show(s.admin, "get", "backendpins", "-n", namespace)
	s.soon("who pinned it is on record", s.pinField("game-night", `.metadata.annotations.spillway\.dev/pinned-by`), Equal("gamer"))
	s.endsToTheSecond("game-night")
	after := s.stats("tower")
	s.that("and the tower was not even probed while it was pinned away", after.Synthetic, Equal(before.Synthetic))
	s.soon("PINNED is empty again", s.field(".status.pinned"), BeEmpty())

	_, err = s.gamer.Apply(s.ctx, pin("not-mine", "work", "hosted", time.Hour))
	s.that("on another route the same user is refused", err, HaveOccurred())
	fmt.Fprintf(s.out, "\n  $ kubectl apply -f not-mine.yaml # as gamer\n  %s\n", lastLine(err))
	s.that("  ... with a message that names the missing permission", err.Error(),
		And(ContainSubstring("pin"), ContainSubstring("llmroutes.spillway.dev/work"), ContainSubstring("gamer")))
}

// applyWhenAllowed applies a pin as gamer. A binding takes a moment to reach the API server's authorizer.
func (s *Story) applyWhenAllowed(manifest string) {
	var out string
	s.must(s.eventually(func() (err error) {
		out, err = s.gamer.Apply(s.ctx, manifest)
		return err
	}))
	s.print(s.gamer, []string{"apply", "-f", "-", "<<EOF"}, manifest+"EOF\n"+out)
}

func (s *Story) eventually(f func() error) error {
	var last error
	s.g.Eventually(s.ctx, func() error { last = f(); return last }).WithTimeout(patience).Should(Succeed())
	return last
}

func (s *Story) pinField(name, path string) func() (string, error) {
	return func() (string, error) {
		return s.admin.Get(s.ctx, stack.Objects{Kind: "backendpins", Namespace: namespace, Name: name}, "{"+path+"}")
	}
}

// endsToTheSecond calls through both proxies until a pin to hosted is over, and checks each call by its own times: one
// that was answered before the end is hosted's, one that began a second after it is the tower's. A call in between may
// be either; how long a call takes does not matter.
func (s *Story) endsToTheSecond(name string) {
	text, err := s.pinField(name, ".status.expiresAt")()
	s.must(err)
	end, err := time.Parse(time.RFC3339, text)
	s.must(err)
	for _, p := range s.stack.Proxies[:2] {
		s.soon(fmt.Sprintf("hosted serves through %s, although the tower is well", p.Name), s.served(p), Equal("hosted"))
	}
	counted := map[string]int{}
	for after := 0; after < 2; {
		for _, p := range s.stack.Proxies[:2] {
			c := s.call(p)
			switch {
			case c.ended.Before(end):
				s.g.Expect(c.servedBy()).To(Equal("hosted"), "a call that was answered before the pin's end")
				counted["before"]++
			case !c.began.Before(end.Add(time.Second)):
				s.g.Expect(c.servedBy()).To(Equal("tower"), "a call that began a second after the pin's end")
				after++
			}
		}
	}
	s.g.Expect(counted["before"]).To(BeNumerically(">", 0), "no call was made before the pin's end")
	s.pass(fmt.Sprintf("the pin ended by itself at %s, to the second, on both proxies", text))
}

func (s *Story) aPinLetsTheTowerRest() {
	s.setMode("tower", "busy")
	for range 2 {
		s.call(s.proxy(1))
	}
	s.soon("the tower's breaker is open on both proxies",
		s.field(`.status.backends[?(@.name=="tower")].proxies`), Equal("2/2"))
	lasts := cooldown + 4*time.Second
	s.applyWhenAllowed(pin("long-game", "default", "hosted", lasts))
	s.soon("the pin is active", s.pinField("long-game", ".status.phase"), Equal("Active"))
	s.setMode("tower", "idle")
	quiet := s.stats("tower")
	retryAt := s.status(`.status.backends[?(@.name=="tower")].retryAt`)
	expiresAt, err := s.pinField("long-game", ".status.expiresAt")()
	s.must(err)
	s.that("the cooldown ends before the pin does ("+retryAt+" < "+expiresAt+")", retryAt < expiresAt, BeTrue())

	end, err := time.Parse(time.RFC3339, expiresAt)
	s.must(err)
	for {
		seen, at := s.stats("tower"), time.Now()
		if !at.Before(end) {
			break
		}
		s.g.Expect(seen.Requests).To(Equal(quiet.Requests), "the tower was asked something while a pin rested it")
		s.call(s.proxy(1))
	}
	s.pass("the cooldown is over, and still nobody asked the tower anything: the game is not to be disturbed")
	s.soon("once the pin has ended the tower is asked for one token, and serves again", s.served(s.proxy(1)), Equal("tower"))
	s.soon("kubectl says Healthy", s.field(".status.state"), Equal("Healthy"))
	s.showRoutes()
}

// lastLine is the last line of what kubectl said.
func lastLine(err error) string {
	_, said, _ := strings.Cut(err.Error(), "exit status 1: ")
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return lines[len(lines)-1]
}
