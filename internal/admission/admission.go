package admission

import (
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// Clock tells monotonic time, since an arbitrary fixed instant.
type Clock interface {
	Monotonic() time.Duration
}

// Options of an Admission.
type Options struct {
	// Clock defaults to the machine's. Buckets refill by it; queues wait by timers in any case.
	Clock Clock
}

// Admission holds the buckets and slots of one proxy. It is safe for concurrent use.
type Admission struct {
	applying sync.Mutex   // serializes Apply, and comes before mu
	applied  *table.Table // what it had last; written with mu held, too

	clock   Clock
	buckets sync.Map // route key -> *bucket, each with a lock of its own: a reload holds nobody up

	mu     sync.Mutex
	live   int
	bounds map[table.BackendID]int    // maxInFlight of every backend that the table names
	slots  map[table.BackendID]*slots // those in use
}

// New returns an Admission for a fleet of one.
func New(o Options) *Admission {
	a := &Admission{
		clock: o.Clock, live: 1, applied: &table.Table{}, bounds: map[table.BackendID]int{}, slots: map[table.BackendID]*slots{},
	}
	if a.clock == nil {
		a.clock = systemClock{start: time.Now()}
	}
	return a
}

type systemClock struct{ start time.Time }

func (c systemClock) Monotonic() time.Duration { return time.Since(c.start) }

// SetLive sets the number of live proxies that share the declared limits; less than 1 counts as 1.
func (a *Admission) SetLive(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live = max(n, 1)
	for _, s := range a.slots {
		s.grant(a.live)
	}
	now := a.clock.Monotonic()
	a.buckets.Range(func(_, v any) bool {
		b := v.(*bucket)
		b.configure(b.limits(), a.live, now)
		return true
	})
}

// Apply takes a new table: buckets and slots that it names are kept, with what they hold, under the new limits; buckets
// that it does not name go, and so do slots when their last user has left. It is made to be passed to
// table.Store.Prepare.
func (a *Admission) Apply(t *table.Table) {
	a.applying.Lock()
	defer a.applying.Unlock()
	changed := t.Changed(a.applied)
	bounds := boundsOf(t, changed)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied = t
	for id := range changed {
		bound, named := bounds[id]
		if !named {
			delete(a.bounds, id)
			continue
		}
		a.bounds[id] = bound
		if s := a.slots[id]; s != nil {
			s.maxInFlight = bound
			s.grant(a.live)
		}
	}
	now := a.clock.Monotonic()
	a.buckets.Range(func(key, v any) bool {
		if route := t.ByKey(key.(string)); route != nil && route.RateLimit.Requests > 0 {
			v.(*bucket).configure(route.RateLimit, a.live, now)
		} else {
			a.buckets.Delete(key)
		}
		return true
	})
}

// boundsOf reads maxInFlight of some backends, as far as the table names them. The compiler gives every route of one backend
// the same, but shards arrive one by one: meanwhile the smallest holds. 0 is unlimited.
func boundsOf(t *table.Table, of map[table.BackendID]bool) map[table.BackendID]int {
	bounds := make(map[table.BackendID]int, len(of))
	if len(of) == 0 {
		return bounds
	}
	for _, route := range t.Routes() {
		for i := range route.Chain {
			id, bound := route.Chain[i].ID, route.Chain[i].MaxInFlight
			if !of[id] {
				continue
			}
			if known, named := bounds[id]; !named || known == 0 || bound > 0 && bound < known {
				bounds[id] = bound
			}
		}
	}
	return bounds
}
