package breaker

import (
	"context"
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
type Registry struct{}

// New returns an empty registry.
func New(o Options) *Registry { return &Registry{} }

// Apply takes a new table: the state of every id that it names is kept, under the new thresholds, cooldowns, groups and
// pins; all others are dropped. It is made to be passed to table.Store.OnSwap.
func (r *Registry) Apply(t *table.Table) {}

// View tells the state of a backend for one endpoint. An id that no table names is Closed and usable.
func (r *Registry) View(id table.BackendID, endpoint string) View { return View{State: Closed, Usable: true} }

// Admit asks for the right to send one request. ok is false when the breaker refuses; then the permit is nil. A permit
// must be given back with Done. An id that no table names (a request that outlives its route) is admitted, and its
// result counts nowhere.
func (r *Registry) Admit(id table.BackendID, endpoint string, how Mode) (p *Permit, ok bool) {
	return &Permit{}, true
}

// Opened returns a channel that is closed when the breaker opens, for those who queue for the backend. It is closed
// already when a Normal request would be refused now. A last resort waits without it.
func (r *Registry) Opened(id table.BackendID) <-chan struct{} { return nil }

// Suspect says that an attempt ended for reasons of its own after at least SuspicionAfter without a first token, and
// before slowAfter. One synthetic request finds out, unless the breaker is not Closed or a pin rests the backend.
func (r *Registry) Suspect(id table.BackendID, endpoint string) {}

// Run sends synthetic requests through p until ctx ends: recovery, suspicion and cold start. It returns after every
// goroutine that it started has ended. Call it once.
func (r *Registry) Run(ctx context.Context, p Prober) { <-ctx.Done() }

// SetPeers names the live, non-draining proxies, this one included unless it drains. The highest rendezvous hash of
// (backend, pod) probes. Without a call, or with an empty list, this proxy probes alone.
func (r *Registry) SetPeers(live []string) {}

// Adopt takes all records of one peer's newest report, in place of its last one. Only what is newer is adopted. The
// reader's own name is allowed once, at start: it brings back what this pod knew before a restart.
func (r *Registry) Adopt(peer string, records []Record) {}

// Forget drops a peer that is no longer live: its counts add up no more. What was adopted stays.
func (r *Registry) Forget(peer string) {}

// Records lists, sorted by id, the breakers that are not Closed, have a count or a pair that is passed over, or closed
// or saw a count cleared within the last cooldown.
func (r *Registry) Records() []Record { return nil }

// OnChange registers f to be called, without locks held, after Records changed. urgent marks openings, closings and
// counts that leave or return to zero; the rest may be coalesced. f must not block. Register before use.
func (r *Registry) OnChange(f func(urgent bool)) {}

// OnTransition registers f to be called, without locks held, with each change of state. f must not block. Register
// before use.
func (r *Registry) OnTransition(f func(Transition)) {}

// Permit is the right to send one request to one backend.
type Permit struct{}

// Token notes that a token of the answer was seen. The first token of a probe closes the breaker.
func (p *Permit) Token() {}

// Done gives the permit back with what the attempt ended in. Only the first call has an effect. For a Silent attempt
// call it before the upstream request is cancelled: a server that loads a model aborts the load with its last request.
func (p *Permit) Done(res Result) {}

// Probe says whether this request is the backend's probe.
func (p *Permit) Probe() bool { return false }
