package breaker

import (
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

const (
	chat       = "/v1/chat/completions"
	embeddings = "/v1/embeddings"

	failCooldown = 30 * time.Second
	satCooldown  = 15 * time.Minute
	slowAfter    = 30 * time.Second
)

// testClock is moved by hand; wall time can be stepped apart from monotonic time.
type testClock struct {
	mono time.Duration
	wall time.Time
}

func (c *testClock) Monotonic() time.Duration { return c.mono }
func (c *testClock) Wall() time.Time          { return c.wall }

func (c *testClock) pass(d time.Duration) {
	c.mono += d
	c.wall = c.wall.Add(d)
}

// epoch0 is where the wall clocks of the tests start.
var epoch0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is one registry under test.
type rig struct {
	t           *testing.T
	clock       *testClock
	r           *Registry
	transitions []Transition
	urgent      int
	changes     int
}

func noJitter(time.Duration) time.Duration { return 0 }

func newRig(t *testing.T, self string, backends ...table.Backend) *rig {
	t.Helper()
	x := &rig{t: t, clock: &testClock{mono: time.Hour, wall: epoch0}}
	x.r = New(Options{Clock: x.clock, Self: self, Jitter: noJitter})
	x.r.OnTransition(func(tr Transition) { x.transitions = append(x.transitions, tr) })
	x.r.OnChange(func(urgent bool) {
		x.changes++
		if urgent {
			x.urgent++
		}
	})
	x.apply(backends...)
	return x
}

// apply makes a table of one route "ns/r" out of the backends.
func (x *rig) apply(backends ...table.Backend) {
	x.r.Apply(table.New([]*table.Route{{Namespace: "ns", Name: "r", Model: "ns/r", Chain: backends}}))
}

// server is a backend with the default limits; edits change them.
func server(id string, edits ...func(*table.Backend)) table.Backend {
	b := table.Backend{
		ID: table.BackendID(id), Name: id, Model: "m", Probe: table.ProbeSynthetic,
		Failure:    table.Failure{Threshold: 5, Cooldown: failCooldown},
		Saturation: table.Saturation{Threshold: 2, Cooldown: satCooldown, SlowAfter: slowAfter},
	}
	for _, edit := range edits {
		edit(&b)
	}
	return b
}

func byRequest(b *table.Backend) { b.Probe = table.ProbeRequest }
func oneSlot(b *table.Backend)   { b.MaxInFlight = 1 }
func grouped(b *table.Backend)   { b.Group = "ns/gpu" }
func graceful(b *table.Backend)  { b.Saturation.ColdStartGrace = 2 * time.Minute }

// admit fails the test when the breaker refuses.
func (x *rig) admit(id, endpoint string, how Mode) *Permit {
	x.t.Helper()
	p, ok := x.r.Admit(table.BackendID(id), endpoint, how)
	if !ok {
		x.t.Fatalf("%s refuses: %+v", id, x.view(id))
	}
	return p
}

// ends sends n requests that end in res, one after the other.
func (x *rig) ends(id string, n int, res Result) {
	x.t.Helper()
	for range n {
		x.admit(id, chat, Normal).Done(res)
	}
}

func (x *rig) silent(id string, n int) { x.t.Helper(); x.ends(id, n, Result{Kind: Silent}) }
func (x *rig) failed(id string, n int) { x.t.Helper(); x.ends(id, n, Result{Kind: Failed}) }

func (x *rig) view(id string) View { return x.r.View(table.BackendID(id), chat) }

func (x *rig) backend(id string) *backend { return x.r.lookup(table.BackendID(id)) }

// probe plays Run's part for one recovery probe of a backend whose turn it is.
func (x *rig) probe(id string, res Result) {
	x.t.Helper()
	b, now := x.backend(id), x.clock.Monotonic()
	x.r.mu.Lock()
	due, ok := x.r.recoveryAt(b)
	if !ok || due > now {
		x.r.mu.Unlock()
		x.t.Fatalf("no probe of %s is due: in %s, %v", id, due-now, ok)
	}
	p := &Permit{registry: x.r, backend: b, endpoint: chat, generation: b.generation.Load(), synthetic: true}
	x.r.sendProbe(b, p, now)
	x.r.settle(p, res)
	x.r.unlock()
}

// probeDue tells when this proxy would probe, from now.
func (x *rig) probeDue(id string) (in time.Duration, ok bool) {
	x.r.mu.Lock()
	defer x.r.unlock()
	at, ok := x.r.recoveryAt(x.backend(id))
	return at - x.clock.Monotonic(), ok
}

func (x *rig) record(id string) Record {
	for _, rec := range x.r.Records() {
		if rec.ID == table.BackendID(id) {
			return rec
		}
	}
	return Record{}
}
