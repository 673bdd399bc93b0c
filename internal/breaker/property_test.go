package breaker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
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

// Over random sequences of events: never two probes out in one group, or at one backend; retryAt of an open breaker never
// moves closer; what a result from before an opening says never changes the state; a permit that was given back says
// nothing more; a new table leaves whatever it still names exactly as it was, and forgets the rest.
func TestRandomEventsKeepTheLaws(t *testing.T) {
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		for range 150 {
			before := w.state()
			switch w.rnd.IntN(12) {
			case 0:
				w.clock.pass(time.Duration(w.rnd.IntN(1200)) * time.Second)
				before = w.state()
			case 1:
				w.reload(before)
			case 2, 3, 4, 5:
				w.ask()
			case 6:
				w.probe()
			case 7:
				w.token()
			case 8:
				w.again(before)
			default:
				w.end(before)
			}
			w.check(before)
		}
	}
}

// world is a registry and what a model of it knows.
type world struct {
	*rig
	seed     uint64
	rnd      *rand.Rand
	backends []table.Backend
	out      []*Permit                 // those that are not given back
	back     []*Permit                 // those that are
	probes   map[*Permit]time.Duration // the leases of those that are probes
}

var probeKinds = []Kind{Neutral, Success, Settled, Silent, Refused, Failed, Misconfigured, EndpointMissing}

func newWorld(t *testing.T, seed uint64) *world {
	rnd := rand.New(rand.NewPCG(seed, 3))
	edits := []func(*table.Backend){byRequest, grouped, oneSlot, func(*table.Backend) {}}
	w := &world{seed: seed, rnd: rnd, probes: map[*Permit]time.Duration{}, backends: []table.Backend{
		server("a", edits[rnd.IntN(len(edits))]), server("b", grouped), server("c", grouped, byRequest)}}
	w.rig = newRig(t, "pod", w.backends...)
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d: "+format, append([]any{w.seed}, args...)...)
}

func (w *world) result() Result {
	return Result{Kind: probeKinds[w.rnd.IntN(len(probeKinds))], RetryAfter: time.Duration(w.rnd.IntN(90)) * time.Second}
}

func (w *world) any() table.BackendID { return w.backends[w.rnd.IntN(len(w.backends))].ID }

// ask admits a caller's request.
func (w *world) ask() {
	endpoint := []string{chat, chat, chat, embeddings}[w.rnd.IntN(4)]
	p, ok := w.r.Admit(w.any(), endpoint, Mode(w.rnd.IntN(2)))
	if !ok || p.backend == nil {
		return
	}
	w.out = append(w.out, p)
	if p.Probe() {
		w.probes[p] = p.expires
	}
}

// probe plays Run's part where a probe is due.
func (w *world) probe() {
	b, now := w.backend(string(w.any())), w.clock.Monotonic()
	if b == nil {
		return
	}
	w.r.mu.Lock()
	due, ok := w.r.recoveryAt(b)
	ok = ok && due <= now && b.probe == nil && !w.r.groupProbed(b, now)
	p := &Permit{registry: w.r, backend: b, endpoint: chat, generation: b.generation.Load(), synthetic: true}
	if ok {
		w.r.sendProbe(b, p, now)
	}
	w.r.unlock()
	if ok {
		w.out, w.probes[p] = append(w.out, p), p.expires
	}
}

func (w *world) token() {
	if len(w.out) == 0 {
		return
	}
	p := w.out[w.rnd.IntN(len(w.out))]
	p.Token()
	if !p.Probe() {
		delete(w.probes, p) // it has shown that the backend is well
	}
}

// end gives a permit back. One from before the last opening or closing moves nothing.
func (w *world) end(before map[string]snapshot) {
	if len(w.out) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.out))
	p := w.out[i]
	w.out = append(w.out[:i], w.out[i+1:]...)
	w.back = append(w.back, p)
	delete(w.probes, p)
	stale := p.generation != p.backend.generation.Load()
	p.Done(w.result())
	if was, named := before[string(p.backend.id)]; named && stale && w.state()[string(p.backend.id)].Generation != was.Generation {
		w.fail("an old result opened or closed %s", p.backend.id)
	}
}

// again uses a permit that has been given back.
func (w *world) again(before map[string]snapshot) {
	if len(w.back) == 0 {
		return
	}
	p := w.back[w.rnd.IntN(len(w.back))]
	p.Done(w.result())
	if after := w.state(); !maps.Equal(before, after) {
		w.fail("a permit counted twice:\n%+v\n%+v", before, after)
	}
}

// reload applies a table of some of the backends, in any order.
func (w *world) reload(before map[string]snapshot) {
	all := []table.Backend{w.backends[0], w.backends[1], w.backends[2], server("z")}
	w.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	kept := all[:1+w.rnd.IntN(len(all))]
	w.apply(kept...)
	after := w.state()
	for i := range kept {
		id := string(kept[i].ID)
		was, named := before[id]
		if !named {
			was = snapshot{Calm: true}
		}
		joined := !named && kept[i].Group != "" && slices.ContainsFunc(kept, func(other table.Backend) bool {
			s := before[string(other.ID)].Open[saturated]
			return other.Group == kept[i].Group && s.On && s.Reason != ReasonGroupSaturated
		})
		if joined {
			if got := after[id].Open[saturated]; got.Reason != ReasonGroupSaturated {
				w.fail("%s has come into a saturated group and is %+v", id, got)
			}
		} else if after[id] != was {
			w.fail("a new table changed %s:\n%+v\n%+v", id, was, after[id])
		}
	}
	if len(after) != len(kept) {
		w.fail("%d backends are known after a table of %d", len(after), len(kept))
	}
}

// snapshot is the state of one breaker, but for what passes with time alone.
type snapshot struct {
	Calm         bool
	Open         [classes]span
	Counts       [classes]int
	Generation   uint64
	Epoch, Good  uint64
	Refusals     int
	Probe        *Permit
	Awaits       bool
	Marks        string
	LastEndpoint string
}

// span is an opening that can be compared.
type span struct {
	On     bool
	Until  time.Duration
	Reason Reason
}

func (w *world) state() map[string]snapshot {
	states := map[string]snapshot{}
	for _, id := range []string{"a", "b", "c", "z"} {
		w.view(id) // takes expired leases back
		b := w.backend(id)
		if b == nil {
			continue
		}
		s := snapshot{Calm: b.calm.Load(), Generation: b.generation.Load(), Epoch: b.epoch, Good: b.lastGood, Refusals: b.refusals,
			Probe: b.probe, Awaits: b.awaitsCaller, LastEndpoint: b.lastEndpoint,
			Marks: strings.Join(slices.Sorted(maps.Keys(b.marks)), " ")}
		for c := range classes {
			s.Open[c] = span{b.open[c].on, b.open[c].until, b.open[c].reason}
			s.Counts[c] = b.counts[c].n
		}
		states[id] = s
	}
	return states
}

func (w *world) check(before map[string]snapshot) {
	after := w.state()
	for id, now := range after {
		was, named := before[id]
		for c, o := range was.Open {
			if named && o.On && now.Open[c].On && now.Open[c].Until < o.Until {
				w.fail("retryAt of %s moved closer", id)
			}
		}
		open := now.Open[failing].On || now.Open[saturated].On
		if now.Calm && (open || now.Probe != nil || now.Counts != [classes]int{}) {
			w.fail("%s is called calm", id)
		}
		if now.Probe != nil && !open {
			w.fail("%s is closed, and a probe is out", id)
		}
	}
	w.checkProbes()
}

// checkProbes counts the probes that the model knows to be out: within their lease, at a backend that is still named.
func (w *world) checkProbes() {
	out := map[string]int{}
	for p, expires := range w.probes {
		if p.backend.gone || w.clock.Monotonic() >= expires || p.generation != p.backend.generation.Load() {
			continue
		}
		where := string(p.backend.id)
		if g := p.backend.cfg.backend.Group; g != "" {
			where = g
		}
		if out[where]++; out[where] > 1 {
			w.fail("two probes are out at %s", where)
		}
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

// BenchmarkApplyTenThousandRoutes is what the breakers have to do when one shard of the table is replaced.
func BenchmarkApplyTenThousandRoutes(b *testing.B) {
	r := New(Options{})
	routes := make([]*table.Route, 10000)
	for i := range routes {
		name := strconv.Itoa(i)
		routes[i] = &table.Route{Namespace: "ns", Name: name, Model: name, Chain: []table.Backend{server("a" + name), server("b" + name)}}
	}
	tables := [2]*table.Table{table.New(routes), nil}
	for i := range routes[:len(routes)/table.Shards] { // a shard was read anew
		same := *routes[i]
		routes[i] = &same
	}
	tables[1] = table.New(routes)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Apply(tables[i%2])
	}
}
