package breaker

import (
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// Permit is the right to send one request to one backend. It may be used by several goroutines.
type Permit struct {
	registry   *Registry
	backend    *backend // nil: no table names it, and nothing that happens counts
	endpoint   string
	generation uint64
	expires    time.Duration // of a probe's lease
	synthetic  bool          // a request of our own
	trial      *endpointMark // the pair's last resort, or nil

	probe atomic.Bool // guarded by Registry.mu for writing
	done  atomic.Bool
}

// Admit asks for the right to send one request. ok is false when the breaker refuses; then the permit is nil. A permit
// must be given back with Done. An id that no table names (a request that outlives its route) is admitted, and its
// result counts nowhere.
func (r *Registry) Admit(id table.BackendID, endpoint string, how Mode) (p *Permit, ok bool) {
	b := r.lookup(id)
	if b == nil {
		return &Permit{}, true
	}
	p = &Permit{registry: r, backend: b, endpoint: endpoint}
	// The generation is read before calm: had the breaker opened in between, calm would be false.
	p.generation = b.generation.Load()
	if b.calm.Load() {
		return p, true
	}
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	r.refresh(b, now)
	p.generation = b.generation.Load()
	m := b.marks[endpoint]
	switch {
	case b.gone:
		return &Permit{}, true
	case r.refuses(b, endpoint, how, now):
		return nil, false
	case b.state() != Closed:
		r.sendProbe(b, p, now)
	case m != nil:
		m.trial, p.trial = p, m
		b.wakePair(endpoint)
	}
	return p, true
}

// refuses says whether a request of that mode is turned away, now. Where nothing else is left, one at a time is let through to an
// open breaker, or to a pair that is passed over.
func (r *Registry) refuses(b *backend, endpoint string, how Mode, now time.Duration) bool {
	m := b.marks[endpoint]
	switch {
	case m != nil && how == Normal:
		return true
	case b.state() == Closed:
		return m != nil && m.trial != nil
	case how == LastResort:
		return r.groupProbed(b, now) || r.reservedForProbe(b, now)
	}
	return !r.admitsCallerProbe(b, now)
}

// sendProbe gives p the one place of a probe.
func (r *Registry) sendProbe(b *backend, p *Permit, now time.Duration) {
	from := b.state()
	p.probe.Store(true)
	p.expires = now + b.cfg.lease()
	b.probe = p
	b.wakeQueue() // whoever was wanted as the probe is not any more
	r.announceProbe(b, from)
}

// admitsCallerProbe says whether an open breaker waits for a caller's request to be its probe, now.
func (r *Registry) admitsCallerProbe(b *backend, now time.Duration) bool {
	due := b.awaitsCaller && r.groupCause(b) == nil || now >= r.probeDue(b)
	return b.probedByCallers() && due && !r.groupProbed(b, now)
}

// probedByCallers says whether a caller's turn is what may close the breaker: always by the route's choice, and after a
// settled answer.
func (b *backend) probedByCallers() bool {
	return b.isOpen() && (b.awaitsCaller || b.probesByRequest())
}

func (b *backend) probesByRequest() bool { return b.cfg.backend.Probe == table.ProbeRequest }

// Probe says whether this request is the backend's probe.
func (p *Permit) Probe() bool { return p.probe.Load() }

// Expect says for how long the attempt may go without its first token: a probe keeps its place for no less.
func (p *Permit) Expect(wait time.Duration) {
	if !p.probe.Load() {
		return
	}
	r := p.registry
	r.mu.Lock()
	defer r.unlock()
	p.expires = max(p.expires, r.clock.Monotonic()+withSlack(wait))
}

// Token notes that a token of the answer was seen; it is cheap, and meant for each of them. The first token of a probe
// closes the breaker.
func (p *Permit) Token() {
	b := p.backend
	if b == nil {
		return
	}
	b.lastToken.Store(int64(p.registry.clock.Monotonic()))
	if !p.probe.Load() || p.done.Load() {
		return
	}
	r := p.registry
	r.mu.Lock()
	defer r.unlock()
	if b.probe == p && !b.gone && p.generation == b.generation.Load() && p.probe.Swap(false) {
		r.endProbe(p, Result{Kind: Success})
		p.generation = b.generation.Load() // from here on an ordinary request of the new generation
	}
}

// Done gives the permit back with what the attempt ended in. Only the first call has an effect. For a Silent attempt
// call it before the upstream request is cancelled: a server that loads a model aborts the load with its last request.
func (p *Permit) Done(res Result) {
	if p.backend == nil || !p.done.CompareAndSwap(false, true) {
		return
	}
	if p.trial == nil && !p.probe.Load() && res.harmless() && p.backend.calm.Load() {
		return
	}
	r := p.registry
	r.mu.Lock()
	defer r.unlock()
	r.settle(p, res)
}

// harmless results say nothing that a calm breaker does not know.
func (res Result) harmless() bool {
	return res.Kind == Success || res.Kind == Neutral || res.Kind == Settled
}
