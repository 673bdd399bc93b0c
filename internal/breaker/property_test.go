package breaker

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// D1: a hundred callers at the end of the cooldown, and exactly one reaches the backend.
func TestHalfOpenLetsOneThrough(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown + time.Millisecond)
	var admitted atomic.Int64
	var callers sync.WaitGroup
	barrier := make(chan struct{})
	for range 100 {
		callers.Go(func() {
			<-barrier
			if _, ok := x.r.Admit("a", chat, Normal); ok {
				admitted.Add(1)
			}
		})
	}
	close(barrier)
	callers.Wait()
	if got := admitted.Load(); got != 1 {
		t.Errorf("%d callers reached the backend, want 1", got)
	}
}

// Over random sequences of events: never two probes out in one group; retryAt of an open breaker never moves closer;
// what a result from before an opening says never changes the state; a permit counts once.
func TestRandomEventsKeepTheLaws(t *testing.T) {
	kinds := []Kind{Neutral, Success, Settled, Silent, Refused, Failed, Misconfigured, EndpointMissing}
	edits := []func(*table.Backend){byRequest, grouped, oneSlot, func(*table.Backend) {}}
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		backends := []table.Backend{
			server("a", edits[rnd.IntN(len(edits))]), server("b", grouped), server("c", grouped, byRequest),
		}
		x := newRig(t, "pod", backends...)
		var out []*Permit
		for range 150 {
			before := stateOf(x)
			stale := false
			switch rnd.IntN(10) {
			case 0:
				x.clock.pass(time.Duration(rnd.IntN(1200)) * time.Second)
				before = stateOf(x)
			case 1:
				x.apply(backends...)
			case 2, 3, 4:
				if p, ok := x.r.Admit(backends[rnd.IntN(3)].ID, chat, Mode(rnd.IntN(2))); ok {
					out = append(out, p)
				}
			case 5:
				if len(out) > 0 {
					out[rnd.IntN(len(out))].Token()
				}
			default:
				if len(out) == 0 {
					continue
				}
				p := out[rnd.IntN(len(out))]
				stale = p.done.Load() || p.generation != p.backend.generation.Load()
				p.Done(Result{Kind: kinds[rnd.IntN(len(kinds))], RetryAfter: time.Duration(rnd.IntN(90)) * time.Second})
			}
			checkLaws(t, seed, x, before, stale)
		}
	}
}

type snapshot struct {
	open       [classes]opening
	generation uint64
}

func stateOf(x *rig) map[string]snapshot {
	states := map[string]snapshot{}
	for _, id := range []string{"a", "b", "c"} {
		x.view(id) // takes expired leases back
		b := x.backend(id)
		states[id] = snapshot{b.open, b.generation.Load()}
	}
	return states
}

func checkLaws(t *testing.T, seed uint64, x *rig, before map[string]snapshot, stale bool) {
	t.Helper()
	probes := 0
	for id, was := range before {
		b := x.backend(id)
		if b.cfg.backend.Group != "" && b.probe != nil {
			probes++
		}
		for c, o := range was.open {
			if o.on && b.open[c].on && b.open[c].until < o.until {
				t.Fatalf("seed %d: retryAt of %s moved closer", seed, id)
			}
		}
		if stale && b.generation.Load() != was.generation {
			t.Fatalf("seed %d: an old result opened or closed %s", seed, id)
		}
		if calm := b.calm.Load(); calm && (b.isOpen() || b.probe != nil || b.counts != [classes]count{}) {
			t.Fatalf("seed %d: %s is called calm", seed, id)
		}
	}
	if probes > 1 {
		t.Fatalf("seed %d: %d probes out in one group", seed, probes)
	}
}

// Everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	r := New(Options{Self: "pod"})
	tables := []*table.Table{
		table.New([]*table.Route{{Namespace: "ns", Name: "r", Chain: []table.Backend{server("a", grouped), server("b", grouped)}}}),
		table.New([]*table.Route{{Namespace: "ns", Name: "r", Chain: []table.Backend{server("a", grouped, byRequest)}}}),
	}
	r.OnChange(func(bool) { r.View("a", chat) })
	r.Apply(tables[0])
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 5))
			for range 500 {
				id := table.BackendID([]string{"a", "b"}[rnd.IntN(2)])
				switch rnd.IntN(8) {
				case 0:
					r.Apply(tables[rnd.IntN(2)])
				case 1:
					r.Adopt("other", r.Records())
				case 2:
					r.Forget("other")
				case 3:
					r.SetPeers([]string{"pod", "other"})
				default:
					if p, ok := r.Admit(id, chat, Mode(rnd.IntN(2))); ok {
						go p.Token()
						p.Done(Result{Kind: Kind(rnd.IntN(8))})
					}
				}
			}
		})
	}
	users.Wait()
}

func benchRegistry() *Registry {
	r := New(Options{})
	r.Apply(table.New([]*table.Route{{Namespace: "ns", Name: "r", Chain: []table.Backend{server("a"), server("b")}}}))
	return r
}

func BenchmarkAdmitClosed(b *testing.B) {
	r := benchRegistry()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, ok := r.Admit("a", chat, Normal)
			if !ok {
				b.Fail()
			}
			p.Done(Result{Kind: Success})
		}
	})
}

func BenchmarkToken(b *testing.B) {
	p, _ := benchRegistry().Admit("a", chat, Normal)
	b.ReportAllocs()
	for b.Loop() {
		p.Token()
	}
}

func BenchmarkViewOpen(b *testing.B) {
	r := benchRegistry()
	p, _ := r.Admit("a", chat, Normal)
	p.Done(Result{Kind: Refused, RetryAfter: time.Hour})
	b.ReportAllocs()
	for b.Loop() {
		r.View("a", chat)
	}
}

func BenchmarkApplyTenThousandRoutes(b *testing.B) {
	r := New(Options{})
	routes := make([]*table.Route, 10000)
	for i := range routes {
		name := strconv.Itoa(i)
		routes[i] = &table.Route{Namespace: "ns", Name: name, Model: name, Chain: []table.Backend{server("a" + name), server("b" + name)}}
	}
	t := table.New(routes)
	b.ReportAllocs()
	for b.Loop() {
		r.Apply(t)
	}
}
