package breaker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// running is a fleet of proxies that run, in a synctest bubble. Each change of a breaker reaches all others a while later, as
// through an API server.
type running struct {
	*bench // answers the probes of all
	pods   map[string]*Registry
	names  []string
	silent atomic.Pointer[string] // the one whose news does not travel any more
}

func (f *running) silence(name string) { f.silent.Store(&name) }

// startFleet starts proxies with one table; delay tells how long each one's news travels to the others.
func startFleet(t *testing.T, delay func(from, to string) time.Duration, names []string, backends ...table.Backend) *running {
	f := &running{bench: &bench{start: time.Now()}, pods: map[string]*Registry{}, names: names}
	f.answers(Result{}) // silence
	var jobs sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	f.stop = func() { cancel(); jobs.Wait() }
	for _, name := range names {
		r := New(Options{Self: name, Jitter: noJitter})
		f.pods[name] = r
		r.OnChange(func(urgent bool) {
			for _, to := range names {
				jobs.Go(func() { f.tell(ctx, news{name, to, urgent, delay(name, to)}) })
			}
		})
		r.Apply(routeOf(nil, backends...))
		r.SetPeers(names)
	}
	for _, r := range f.pods {
		jobs.Go(func() { r.Run(ctx, f) })
	}
	return f
}

// news is on its way from one proxy to another.
type news struct {
	from, to string
	urgent   bool
	delay    time.Duration
}

// tell brings what one proxy knows to another: at once, or what it knows a second later.
func (f *running) tell(ctx context.Context, n news) {
	if n.to == n.from {
		return
	}
	if !n.urgent && !elapses(ctx, time.Second) {
		return
	}
	records := f.pods[n.from].Records()
	if gone := f.silent.Load(); gone != nil && *gone == n.from {
		return
	}
	if elapses(ctx, n.delay) {
		f.pods[n.to].Adopt(n.from, records)
	}
}

func elapses(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// A backend that goes on being silent is asked once at the end of each cooldown, by one proxy: a silent probe ends at its very
// bound, and the others wait for that news a little longer than for the bound.
func TestASilentBackendIsAskedOnceForEachCooldown(t *testing.T) {
	for opener := range 3 {
		for _, slow := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				names := []string{"pod-0", "pod-1", "pod-2"}
				f := startFleet(t, func(from, _ string) time.Duration { return slow * time.Duration(1+slices.Index(names, from)) }, names, server("a"))
				for range 2 {
					p, ok := f.pods[names[opener]].Admit("a", chat, Normal)
					if !ok {
						t.Fatal("refused")
					}
					p.Done(Result{Kind: Silent})
				}
				pass(3*(satCooldown+minProbeBound) + time.Minute)
				f.stop()
				if len(f.asked) != 3 {
					t.Errorf("opened by %s, news takes %s: asked %+v, want three", names[opener], slow, f.asked)
				}
			})
		}
	}
}

// Backends that share their hardware are probed by one proxy, one after the other, also where each is open by evidence of its own.
func TestAFleetProbesAGroupOneAtATime(t *testing.T) {
	for _, group := range []string{"ns/gpu", "ns/card", "ns/box"} { // so that chance does not decide
		synctest.Test(t, func(t *testing.T) {
			in := func(b *table.Backend) { b.Group = group }
			names := []string{"pod-0", "pod-1", "pod-2"}
			f := startFleet(t, func(string, string) time.Duration { return 20 * time.Millisecond }, names,
				server("a", in), server("b", in), server("c", in))
			for i, id := range []table.BackendID{"a", "b", "c"} { // the last resort of another proxy each
				p, ok := f.pods[names[i]].Admit(id, chat, LastResort)
				if !ok {
					t.Fatal("refused")
				}
				p.Done(Result{Kind: Refused, RetryAfter: time.Minute})
				pass(time.Second)
			}
			pass(time.Minute + 3*minProbeBound)
			f.stop()
			slices.SortFunc(f.asked, func(x, y asked) int { return int(x.At - y.At) })
			for i := 1; i < len(f.asked); i++ {
				if before := f.asked[i-1]; f.asked[i].At < before.At+before.CutAfter {
					t.Errorf("%s: two at a time: %+v", group, f.asked)
				}
			}
			if len(f.asked) == 0 {
				t.Error("nobody was asked")
			}
		})
	}
}

// An edit that puts a backend into a group, or takes it out of one, moves its probe to the proxy whose turn the group's is.
func TestTheProberFollowsTheGroup(t *testing.T) {
	names := []string{"pod", "p1", "p2", "p3"}
	alone, together, group := rendezvous("a", "pod", names), 0, ""
	for i := 0; group == "" || together == alone; i++ {
		group = fmt.Sprint("ns/g", i)
		together = rendezvous(group, "pod", names)
	}
	in := func(b *table.Backend) { b.Group = group }
	x := newRig(t, "pod", server("a"), server("b"))
	x.r.SetPeers(names)
	x.silent("a", 2)
	ranked := func() int {
		in, _ := x.probeDue("a")
		return int((in - satCooldown) / (minProbeBound + newsDelay))
	}
	got := []int{ranked()}
	x.apply(server("a", in), server("b", in))
	got = append(got, ranked())
	x.apply(server("a", in), server("b"))
	if got = append(got, ranked()); !slices.Equal(got, []int{alone, together, alone}) {
		t.Errorf("places %v, want %d, %d in the group, %d", got, alone, together, alone)
	}
}

// While one proxy's probe is out, no other lets a last resort through: one request at a time is the fleet's.
func TestLastResortsGoOneAtATimeInTheFleet(t *testing.T) {
	f := newFleet(t, 2, server("a", grouped), server("b", grouped))
	f.pods[0].silent("a", 2)
	f.settle()
	p := f.pods[0].admit("a", chat, LastResort)
	f.tell(0)
	for _, id := range []table.BackendID{"a", "b"} {
		if _, ok := f.pods[1].r.Admit(id, chat, LastResort); ok {
			t.Errorf("a second one was let through, to %s", id)
		}
	}
	p.Done(Result{})
	f.tell(0)
	f.pods[1].admit("b", chat, LastResort).Done(Result{})
	f.pods[0].admit("a", chat, LastResort)
	f.tell(0)
	f.pods[1].r.Forget("pod-0") // it went without a word
	f.pods[1].admit("a", chat, LastResort)
}

// A good answer of the cause closes what saturation holds open in its group, also where a member has failures of its own and another
// proxy's late evidence has made the opening longer.
func TestLateEvidenceDoesNotOutliveTheGroupsClosing(t *testing.T) {
	f := newFleet(t, 2, server("a", grouped), server("b", grouped))
	f.pods[0].failed("b", 5)
	f.settle()
	late := f.pods[1].admit("a", chat, Normal)
	f.pods[0].silent("a", 2)
	f.settle()
	f.clock.pass(time.Minute)
	late.Done(Result{Kind: Silent})
	f.settle()
	f.pods[0].admit("a", chat, LastResort).Done(Result{Kind: Success})
	f.settle()
	for _, x := range f.pods {
		got := x.view("b")
		got.Message = ""
		if want := openView(ReasonFailing, 0); got != want {
			t.Errorf("%s: %+v, want %+v", x.r.self, got, want)
		}
	}
}

// Late evidence holds the whole group on every proxy.
func TestLateEvidenceTravelsForTheWholeGroup(t *testing.T) {
	f := newFleet(t, 2, server("a", grouped), server("b", grouped))
	late := f.pods[0].admit("a", chat, Normal)
	f.pods[0].ends("a", 1, Result{Kind: Refused, RetryAfter: time.Minute})
	f.tell(0)
	late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
	f.tell(0)
	if got := f.pods[1].view("b").Remaining; got != time.Hour {
		t.Errorf("%s remain for the member, want %s", got, time.Hour)
	}
}

// What the cause of a group's opening asked for holds for its members on every proxy, whatever their own cooldown is.
func TestAGroupsOpeningTravelsWhole(t *testing.T) {
	brief := func(b *table.Backend) { b.Saturation.Cooldown = time.Minute }
	f := newFleet(t, 2, server("a", grouped, brief), server("b", grouped))
	f.pods[0].ends("b", 1, Result{Kind: Refused, RetryAfter: 3 * time.Hour})
	f.tell(0)
	want := openView(ReasonGroupSaturated, 3*time.Hour)
	for _, x := range f.pods {
		got := x.view("a")
		got.Message = ""
		if got != want {
			t.Errorf("%s: %+v, want %+v", x.r.self, got, want)
		}
	}
}

// When the pin ends that kept all proxies from probing, one of them does, and not all whose turn has come meanwhile. So it is when
// callers are not to be the probe any more.
func TestOneProxyProbesWhenAllMayAgain(t *testing.T) {
	names := []string{"pod-0", "pod-1", "pod-2"}
	cases := map[string]struct {
		backend table.Backend
		pinned  time.Duration
		again   func() *table.Table // after ten minutes; nil: no new table
	}{
		"a pin that ends": {backend: server("a"), pinned: 10 * time.Minute},
		"a pin that is deleted": {backend: server("a"), pinned: 9 * time.Hour,
			again: func() *table.Table { return routeOf(nil, server("a"), server("b")) }},
		"an edit of recovery.probe": {backend: server("a", byRequest),
			again: func() *table.Table { return routeOf(nil, server("a"), server("b")) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFleet(t, func(string, string) time.Duration { return 20 * time.Millisecond }, names, tc.backend, server("b"))
				pin := table.Pin{Name: "p", Backend: "b", Mode: table.PinPrefer, StartsAt: f.start, ExpiresAt: f.start.Add(tc.pinned)}
				for _, r := range f.pods {
					r.Apply(routeOf([]table.Pin{pin}, tc.backend, server("b")))
				}
				p, _ := f.pods["pod-1"].Admit("a", chat, Normal)
				p.Done(Result{Kind: Refused})
				pass(10*time.Minute - time.Millisecond)
				for _, r := range f.pods {
					if tc.again != nil {
						r.Apply(tc.again())
					}
				}
				pass(time.Minute)
				f.stop()
				if len(f.asked) != 1 || f.asked[0].At < 10*time.Minute-time.Second {
					t.Errorf("asked %+v, want one after ten minutes", f.asked)
				}
			})
		})
	}
}

// Where news travels at once, one probe at a time is the fleet's: whatever proxies meet, whoever lets a caller through or probes by
// itself, and however long each takes.
func TestOneProbeAtATimeInTheFleet(t *testing.T) {
	for seed := range uint64(15) {
		w := &fleetWorld{fleet: newFleet(t, 3, server("a", grouped), server("b", grouped, byRequest), server("c", byRequest), server("d")),
			seed: seed, rnd: rand.New(rand.NewPCG(seed, 11)), synthetic: map[*Permit]time.Duration{}}
		for range 60 {
			switch i := w.rnd.IntN(6); {
			case i == 0:
				w.passes()
			case i < 4:
				id := table.BackendID([]string{"a", "b", "c", "d"}[w.rnd.IntN(4)])
				if p, ok := w.pods[w.rnd.IntN(3)].r.Admit(id, chat, Mode(w.rnd.IntN(2))); ok {
					w.out = append(w.out, p)
				}
				w.news()
			case len(w.out) > 0:
				w.end(w.out[w.rnd.IntN(len(w.out))], probeKinds[w.rnd.IntN(len(probeKinds))])
			}
		}
	}
}

// fleetWorld is a fleet under random events.
type fleetWorld struct {
	*fleet
	seed      uint64
	rnd       *rand.Rand
	out       []*Permit
	synthetic map[*Permit]time.Duration // those of the proxies' own, since when
}

// passes lets time go by in small steps, in which the proxies probe when it is their turn, and end what nobody answers.
func (w *fleetWorld) passes() {
	for range w.rnd.IntN(120) {
		w.clock.pass(5 * time.Second)
		for p, since := range w.synthetic {
			if w.clock.mono-since >= p.backend.cfg.probeBound() {
				w.end(p, Silent)
			}
		}
		for _, x := range w.pods {
			for _, id := range []string{"a", "b", "c", "d"} {
				if p := x.probeIfDue(id); p != nil {
					w.out, w.synthetic[p] = append(w.out, p), w.clock.mono
					w.news()
				}
			}
		}
	}
}

func (w *fleetWorld) end(p *Permit, kind Kind) {
	p.Done(Result{Kind: kind, RetryAfter: time.Duration(w.rnd.IntN(90)) * time.Second})
	w.out = slices.DeleteFunc(w.out, func(other *Permit) bool { return other == p })
	delete(w.synthetic, p)
	w.news()
}

// news is told to all, and nobody may then have joined another's probe.
func (w *fleetWorld) news() {
	w.settle()
	probes := map[string]int{}
	for _, p := range w.out {
		b := p.backend
		if b.probe != p || w.clock.mono >= p.expires || p.generation != b.generation.Load() {
			continue
		}
		if probes[p.registry.probeKey(b)]++; probes[p.registry.probeKey(b)] > 1 {
			w.t.Fatalf("seed %d: two probes are out at %s", w.seed, p.registry.probeKey(b))
		}
	}
}

// probeIfDue plays Run's part where a probe is due.
func (x *rig) probeIfDue(id string) *Permit {
	b, now := x.backend(id), x.clock.Monotonic()
	x.r.mu.Lock()
	defer x.r.unlock()
	due, ok := x.r.recoveryAt(b)
	if !ok || due > now || b.probe != nil || x.r.groupProbed(b, now) {
		return nil
	}
	p := &Permit{registry: x.r, backend: b, endpoint: chat, generation: b.generation.Load(), synthetic: true}
	x.r.sendProbe(b, p, now)
	return p
}

// Callers who leave early, one after the other, do not keep the fleet's own probe out, which has the time to wait for a model.
func TestImpatientLastResortsLeaveRoomForAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"pod-0", "pod-1", "pod-2"}
		f := startFleet(t, func(string, string) time.Duration { return 20 * time.Millisecond }, names, server("a"))
		last := names[slices.IndexFunc(names, func(name string) bool { return rendezvous("a", name, names) == 2 })]
		p, _ := f.pods[last].Admit("a", chat, Normal)
		p.Done(Result{Kind: Refused})
		for range 30 {
			if p, ok := f.pods[last].Admit("a", chat, LastResort); ok {
				pass(10 * time.Second)
				p.Done(Result{})
			} else {
				pass(time.Second)
			}
		}
		f.stop()
		if len(f.asked) != 1 || f.asked[0].At > time.Minute {
			t.Errorf("asked %+v, want one, soon after it was due", f.asked)
		}
	})
}

// Where a proxy dies late within its probe, one of the others takes over, and not all whose turn has come meanwhile.
func TestOneProxyTakesOverFromOneThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, dying := []string{"pod-0", "pod-1", "pod-2"}, "dying"
		for rendezvous("a", dying, append(names, dying)) > 0 {
			dying += "-"
		}
		f := startFleet(t, func(string, string) time.Duration { return 20 * time.Millisecond }, append(names, dying), server("a"))
		p, _ := f.pods["pod-0"].Admit("a", chat, Normal)
		p.Done(Result{Kind: Refused})
		pass(failCooldown + 110*time.Second)
		for _, name := range names { // its last report; what comes after it is lost
			f.pods[name].Adopt(dying, f.pods[dying].Records())
		}
		f.silence(dying)
		pass(45 * time.Second)
		for _, name := range names {
			f.pods[name].Forget(dying)
			f.pods[name].SetPeers(names)
		}
		pass(20 * time.Second)
		f.stop()
		if len(f.asked) != 2 {
			t.Errorf("asked %+v, want two: by the one that died, and by one other", f.asked)
		}
	})
}

// When a caller's request gives the place of the probe back without news, one proxy probes, not all whose turn has come.
func TestOneProxyProbesAfterALastResortWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"pod-0", "pod-1", "pod-2"}
		patient := server("a", func(b *table.Backend) { b.Saturation.NonStreamingSlowAfter = 20 * time.Minute })
		f := startFleet(t, func(string, string) time.Duration { return 20 * time.Millisecond }, names, patient)
		p, _ := f.pods["pod-0"].Admit("a", chat, Normal)
		p.Done(Result{Kind: Refused})
		last, _ := f.pods["pod-0"].Admit("a", chat, LastResort)
		pass(20 * time.Minute)
		last.Done(Result{})
		pass(time.Minute)
		f.stop()
		if len(f.asked) != 1 {
			t.Errorf("asked %+v, want one", f.asked)
		}
	})
}

// A late refusal of one backend is held back by the probe of another one, at a peer, whose success closes both.
func TestAGoodProbeClosesAllOfAGroupInTheFleet(t *testing.T) {
	for _, ids := range [][2]string{{"a", "b"}, {"b", "a"}} { // a report is read by id
		cause, mate := ids[0], ids[1]
		f := newFleet(t, 2, server("a", grouped), server("b", grouped))
		late := f.pods[0].admit(mate, chat, Normal)
		f.pods[0].ends(cause, 1, Result{Kind: Refused, RetryAfter: time.Minute})
		f.tell(0)
		trial := f.pods[1].admit(cause, chat, LastResort)
		f.tell(1)
		late.Done(Result{Kind: Refused, RetryAfter: time.Hour})
		trial.Done(Result{Kind: Success})
		f.settle()
		for _, x := range f.pods {
			if a, b := x.view("a").State, x.view("b").State; a != Closed || b != Closed {
				t.Errorf("caused by %s: a is %s, b is %s", cause, a, b)
			}
		}
	}
}
