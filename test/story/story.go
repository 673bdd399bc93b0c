package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/spillway-dev/spillway/test/stack"
)

// patience is how long the story waits for something that the product does by itself. It bounds a failure, nothing is
// measured by it.
const patience = time.Minute

// Tokens is the length of a simulated answer that the story needs: long enough to outlast an edit of the chain.
const Tokens = 100

// Backends are the simulated backends that the story needs, at any free port.
func Backends() map[string]string {
	return map[string]string{"tower": "127.0.0.1:0", "hosted": "127.0.0.1:0"}
}

// Story is one telling.
type Story struct {
	stack *stack.Stack
	out   io.Writer
	admin *stack.User
	gamer *stack.User

	// Set for each step.
	ctx context.Context
	g   gomega.Gomega
}

// Step is one chapter; the chapters are told in order and build on each other.
type Step struct {
	Title string
	tell  func(*Story)
}

// New prepares a telling on a stack that has Backends and two proxies, written to out.
func New(s *stack.Stack, out io.Writer) *Story {
	story := &Story{stack: s, out: out, admin: s.Admin()}
	story.g = gomega.NewGomega(func(message string, _ ...int) { panic(failure(message)) })
	return story
}

// Steps are the chapters in order.
func Steps() []Step {
	return []Step{
		{"A route is applied, and two proxies serve it", (*Story).aRouteIsApplied},
		{"A caller is told what it waits for", (*Story).aCallerIsTold},
		{"The tower becomes busy: traffic spills over, and sticks", (*Story).theTowerBecomesBusy},
		{"The tower is idle again: it comes back by itself", (*Story).theTowerComesBack},
		{"A player pins the route away from the tower", (*Story).aPlayerPinsTheRoute},
		{"A pin lets a busy tower rest", (*Story).aPinLetsTheTowerRest},
		{"The chain is edited under a running stream", (*Story).theChainIsEdited},
		{"The manager is stopped", (*Story).theManagerIsStopped},
		{"The API server is stopped", (*Story).theAPIServerIsStopped},
	}
}

// Tell tells one chapter. The error says which sentence did not hold.
func (s *Story) Tell(ctx context.Context, step Step) (err error) {
	fmt.Fprintf(s.out, "\n── %s %s\n", step.Title, strings.Repeat("─", max(2, 86-len([]rune(step.Title)))))
	s.ctx = ctx
	defer func() {
		if f, ok := recover().(failure); ok {
			err = errors.New(string(f))
			fmt.Fprintf(s.out, "  ✗ %s\n", err)
		}
	}()
	step.tell(s)
	return nil
}

// failure carries a sentence that did not hold out of a chapter.
type failure string

// that checks one sentence and prints it when it holds.
func (s *Story) that(sentence string, actual any, matcher types.GomegaMatcher) {
	s.g.Expect(actual).To(matcher, sentence)
	s.pass(sentence)
}

// soon waits until a sentence holds and prints it.
func (s *Story) soon(sentence string, actual func() (string, error), matcher types.GomegaMatcher) {
	s.g.Eventually(s.ctx, actual).WithTimeout(patience).WithPolling(50*time.Millisecond).Should(matcher, sentence)
	s.pass(sentence)
}

func (s *Story) pass(sentence string) { fmt.Fprintf(s.out, "  ✓ %s\n", sentence) }
func (s *Story) note(format string, args ...any) {
	fmt.Fprintf(s.out, "\n  "+format+"\n", args...)
}

// must ends the chapter when something around the story fails.
func (s *Story) must(err error) { s.g.Expect(err).NotTo(gomega.HaveOccurred()) }

func (s *Story) setMode(backend, mode string) {
	s.must(s.stack.Backends[backend].SetMode(s.ctx, mode))
	s.note("%s is now %s", backend, mode)
}

func (s *Story) stats(backend string) stack.BackendStats {
	stats, err := s.stack.Backends[backend].Stats(s.ctx)
	s.must(err)
	return stats
}

// show prints a kubectl command with what it answers.
func (s *Story) show(user *stack.User, args ...string) {
	out, err := user.Kubectl(s.ctx, args...)
	s.must(err)
	s.print(user, args, out)
}

func (s *Story) print(user *stack.User, args []string, out string) {
	who := ""
	if user != s.admin {
		who = " # as " + user.Name
	}
	fmt.Fprintf(s.out, "\n  $ kubectl %s%s\n", strings.Join(args, " "), who)
	for line := range strings.Lines(out) {
		fmt.Fprintf(s.out, "  %s", line)
	}
}

// apply applies a manifest and prints it.
func (s *Story) apply(user *stack.User, manifest string) {
	out, err := user.Apply(s.ctx, manifest)
	s.must(err)
	s.print(user, []string{"apply", "-f", "-", "<<EOF"}, manifest+"EOF\n"+out)
}

// field reads one field of the route as kubectl shows it.
func (s *Story) field(path string) func() (string, error) {
	return func() (string, error) {
		return s.admin.Get(s.ctx, stack.Objects{Kind: "llmroutes", Namespace: namespace, Name: "default"}, "{"+path+"}")
	}
}

func (s *Story) showRoutes(wide ...string) {
	s.show(s.admin, append([]string{"get", "llmroutes", "-A"}, wide...)...)
}
