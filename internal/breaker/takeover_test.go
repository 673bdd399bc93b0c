package breaker

import (
	"context"
	"slices"
	"sync"
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
}

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
		r.OnChange(func(bool) {
			for _, to := range names {
				jobs.Go(func() { f.tell(ctx, name, to, delay(name, to)) })
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

// tell brings what one proxy knows now to another.
func (f *running) tell(ctx context.Context, from, to string, delay time.Duration) {
	if to == from {
		return
	}
	records := f.pods[from].Records()
	select {
	case <-time.After(delay):
		f.pods[to].Adopt(from, records)
	case <-ctx.Done():
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
