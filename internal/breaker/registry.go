package breaker

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// Options of a Registry.
type Options struct {
	// Clock defaults to SystemClock.
	Clock Clock
	// Self is the name of this proxy's pod; it takes part in the choice of who probes. Empty in standalone mode.
	Self string
	// Jitter returns what is added to a cooldown that a failed probe starts, between 0 and a tenth of it. Default: random.
	Jitter func(cooldown time.Duration) time.Duration
}

// Registry holds one breaker per backend id. It is safe for concurrent use.
//
// A calm breaker (closed, nothing counted anywhere) is read through atomics alone. All else is behind one mutex: trouble
// is rare, its critical sections are short, and groups span backends.
type Registry struct {
	applying sync.Mutex   // serializes Apply, and comes before mu
	applied  *table.Table // what it had last

	clock  Clock
	self   string
	jitter func(time.Duration) time.Duration
	wake   chan struct{} // tells Run that something may be due; holds one

	index atomic.Pointer[map[table.BackendID]*backend] // replaced, never changed

	mu             sync.Mutex
	groups         map[string][]*backend // capacity groups of more than one, sorted by id
	active         map[*backend]struct{} // what Records, Run and refresh must visit, see updateActivity
	peers          map[string]*peer
	live           []string // sorted; empty: this proxy is alone
	rankGeneration uint64   // counts SetPeers and Apply: what was ranked before is stale

	onChange     []func(urgent bool)
	onTransition []func(Transition)
	pending      []notice
	delivering   bool
}

// notice is what the callbacks are still to be told: a transition, or that the records changed.
type notice struct {
	transition *Transition
	urgent     bool
}

// New returns an empty registry.
func New(o Options) *Registry {
	r := &Registry{
		clock:   o.Clock,
		applied: &table.Table{},
		self:    o.Self,
		jitter:  o.Jitter,
		wake:    make(chan struct{}, 1),
		groups:  map[string][]*backend{},
		active:  map[*backend]struct{}{},
		peers:   map[string]*peer{},
	}
	if r.clock == nil {
		r.clock = SystemClock()
	}
	if r.jitter == nil {
		r.jitter = func(cooldown time.Duration) time.Duration { return rand.N(cooldown/10 + 1) }
	}
	r.index.Store(&map[table.BackendID]*backend{})
	return r
}

// OnChange registers f to be called, without locks held, after Records changed. urgent marks openings, closings and
// counts that leave or return to zero; the rest may be coalesced. f must not block. Register before use.
func (r *Registry) OnChange(f func(urgent bool)) { r.onChange = append(r.onChange, f) }

// OnTransition registers f to be called, without locks held, with each change of state, in order. f must not block.
// Register before use.
func (r *Registry) OnTransition(f func(Transition)) { r.onTransition = append(r.onTransition, f) }

// View tells the state of a backend for one endpoint. An id that no table names is Closed and usable.
func (r *Registry) View(id table.BackendID, endpoint string) View {
	b := r.lookup(id)
	if b == nil || b.calm.Load() {
		return View{State: Closed, Usable: true}
	}
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	r.refresh(b, now)
	if m := b.marks[endpoint]; m != nil && b.state() == Closed {
		return View{State: Closed, Reason: ReasonEndpointMissing, Remaining: m.until - now, Message: m.message}
	}
	c := b.leading()
	return View{
		State:     b.state(),
		Reason:    b.open[c].reason,
		Remaining: max(0, b.retryAt()-now),
		Usable:    !r.refuses(b, endpoint, Normal, now),
		Message:   b.open[c].message,
	}
}

// closedChannel is what Opened returns where there is nothing to wait for.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Opened returns a channel that is closed when the breaker opens, for those who queue for the backend, when another request has
// become the probe that it waits for, or when the pair with the endpoint comes to be passed over. It is closed already when a
// request of that mode would be refused now.
func (r *Registry) Opened(id table.BackendID, endpoint string, how Mode) <-chan struct{} {
	b := r.lookup(id)
	if b == nil {
		return nil
	}
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	r.refresh(b, now)
	if r.refuses(b, endpoint, how, now) {
		return closedChannel
	}
	if b.opened[endpoint] == nil {
		if b.opened == nil {
			b.opened = map[string]chan struct{}{}
		}
		b.opened[endpoint] = make(chan struct{})
	}
	return b.opened[endpoint]
}

func (r *Registry) lookup(id table.BackendID) *backend { return (*r.index.Load())[id] }

// unlock ends a critical section and tells the callbacks what happened in it. One goroutine at a time delivers, so they
// hear of changes in order, and may call back into the registry.
func (r *Registry) unlock() {
	if r.delivering {
		r.mu.Unlock()
		return
	}
	r.delivering = true
	for len(r.pending) > 0 {
		batch := r.pending
		r.pending = nil
		r.mu.Unlock()
		r.deliver(batch)
		r.mu.Lock()
	}
	r.delivering = false
	r.mu.Unlock()
}

func (r *Registry) deliver(batch []notice) {
	changed, urgent := false, false
	for _, n := range batch {
		if n.transition == nil {
			changed, urgent = true, urgent || n.urgent
			continue
		}
		for _, f := range r.onTransition {
			f(*n.transition)
		}
	}
	if !changed {
		return
	}
	for _, f := range r.onChange {
		f(urgent)
	}
}

func (r *Registry) changed(urgent bool) { r.pending = append(r.pending, notice{urgent: urgent}) }

func (r *Registry) wakeRun() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// sortedActive lists the active backends by id.
func (r *Registry) sortedActive() []*backend {
	list := make([]*backend, 0, len(r.active))
	for b := range r.active {
		list = append(list, b)
	}
	slices.SortFunc(list, byID)
	return list
}
