package breaker

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// class indexes the two kinds of trouble, which are counted and cooled apart.
type class int

const (
	failing class = iota
	saturated
	classes
)

func classOf(reason Reason) class {
	if reason.Saturation() {
		return saturated
	}
	return failing
}

// countTTL is how long a count lives after its last event, unless the cooldown is longer. At one call a minute a dead
// backend must open too.
const countTTL = time.Hour

// backend is the breaker of one backend id. All but the atomics is guarded by Registry.mu.
type backend struct {
	id table.BackendID

	// calm says that the breaker is closed and that nothing is counted, here or by a peer: admission and good answers
	// need no lock. It is cleared before generation changes and set after.
	calm atomic.Bool
	// generation counts the openings and closings that this process saw, its own and adopted ones. A permit carries the
	// one it was admitted in. The Lamport epoch cannot serve for that: it is forgotten with the last record.
	generation atomic.Uint64
	// lastToken is the monotonic time of the last token seen from the backend, in nanoseconds; 0 is never.
	lastToken atomic.Int64

	cfg    *config
	gone   bool   // no table names it any more
	group  string // where regroup has put it last
	counts [classes]count
	open   [classes]opening
	// refusals is the exponent of the cooldown for refusals without a Retry-After. It travels with an opening, so that it is
	// doubled whoever probes.
	refusals int
	probe    *Permit // the one probe that is out, or nil
	marks    map[string]*endpointMark
	opened   map[string]chan struct{} // by endpoint: closed at the next opening; absent where nobody waits

	rank           int // of this proxy for the backend, valid for rankGeneration
	rankGeneration uint64
	epoch          uint64
	lastGood       uint64
	origin         string         // who made the last transition: tells concurrent openings of one epoch apart
	merged         map[string]int // peers whose opening of this very epoch has been merged, with its extensions
	extensions     int            // of the opening of this very epoch, by one's own late evidence; see Record.Extensions
	toldRetryAt    time.Duration  // retryAt as it was news last
	since          time.Time      // wall
	// listedUntil keeps a closed breaker, or a cleared count, in the records so that the peers hear of it.
	listedUntil time.Duration
	reported    bool // the last Records named it, and so the peers may hold it

	// lastEndpoint is the dialect that last failed, here or in the report that was adopted.
	lastEndpoint string
	// yieldUntil: our guess at the dialect was wrong, so another proxy is to probe meanwhile.
	yieldUntil time.Duration
	// probesHeldUntil is the last time at which something else than the cooldown kept the proxies from probing: a pin that rested
	// the backend, callers whose turn the probe was, or a probe that was out at the same hardware. The turns of the proxies (see
	// recoveryAt) count from then on, else it would be everybody's turn at once.
	probesHeldUntil time.Duration
	// awaitsCaller: after a settled answer only a caller's request can tell, and retryAt does not hold it back.
	awaitsCaller bool
	wanted       map[Purpose]string // suspicion and cold start that Run is to begin, with the endpoint
	jobs         map[Purpose]*job   // those that are running
}

type count struct {
	n    int
	last time.Duration // of the last event
}

// opening is one class of trouble that holds the breaker open.
type opening struct {
	on      bool
	until   time.Duration
	reason  Reason
	message string
}

// endpointMark is a pair of backend and endpoint that is passed over.
type endpointMark struct {
	until   time.Duration
	message string
	trial   *Permit // the last resort that is out, or nil
}

func byID(a, b *backend) int { return strings.Compare(string(a.id), string(b.id)) }

func (b *backend) isOpen() bool { return b.open[failing].on || b.open[saturated].on }

// openForSilence says that nothing but silence holds the breaker open.
func (b *backend) openForSilence() bool {
	return b.open[saturated].reason == ReasonSaturated && !b.open[failing].on
}

func (b *backend) state() State {
	switch {
	case !b.isOpen():
		return Closed
	case b.probe != nil:
		return HalfOpen
	}
	return Open
}

// leading is the class whose retryAt holds: the later one.
func (b *backend) leading() class {
	f, s := b.open[failing], b.open[saturated]
	if s.on && (!f.on || s.until >= f.until) {
		return saturated
	}
	return failing
}

// retryAt is meaningful for an open breaker alone.
func (b *backend) retryAt() time.Duration { return b.open[b.leading()].until }

// openFor opens the breaker for one class or extends it; it never shortens.
func (b *backend) openFor(c class, o opening) {
	o.on = true
	if b.open[c].on {
		o.until = max(o.until, b.open[c].until)
	}
	b.open[c] = o
}

// clearOpenings closes the breaker for every class.
func (b *backend) clearOpenings() { b.open = [classes]opening{} }

// refresh lets go of what has run out: counts, marks, the lease of a probe that never ended, and the memory of a breaker
// that has nothing to tell any more.
func (r *Registry) refresh(b *backend, now time.Duration) {
	for c := range b.counts {
		if b.counts[c].n > 0 && now-b.counts[c].last > max(b.cfg.cooldown[c], countTTL) {
			b.counts[c] = count{}
			r.changed(true)
		}
	}
	for endpoint, m := range b.marks {
		if now >= m.until {
			delete(b.marks, endpoint)
			r.changed(false)
		}
	}
	if b.probe != nil && now >= b.probe.expires {
		r.releaseProbe(b)
	}
	r.updateActivity(b, now)
}

// updateActivity notes whether the breaker is calm, and whether Records, Run and refresh must still visit it.
func (r *Registry) updateActivity(b *backend, now time.Duration) {
	b.calm.Store(!b.gone && r.isCalm(b))
	idle := b.calm.Load() && !r.listed(b, now) && !b.reported && len(b.jobs) == 0 && len(b.wanted) == 0
	if !idle && !b.gone {
		r.active[b] = struct{}{}
		return
	}
	delete(r.active, b)
	if !r.reportedByPeers(b) {
		// An absence from the reports says nothing. A breaker that left them all, one's own too, starts over, as in a proxy
		// that never knew it: else a newcomer's first epoch would be taken for old news.
		b.epoch, b.lastGood, b.origin, b.merged, b.extensions = 0, 0, "", nil, 0
	}
}

// isCalm says whether the breaker is closed, and nothing is counted, out or marked. That a table names it is not looked at.
func (r *Registry) isCalm(b *backend) bool {
	if b.isOpen() || b.probe != nil || len(b.marks) > 0 {
		return false
	}
	for c := range classes {
		if r.total(b, c) > 0 {
			return false
		}
	}
	return true
}

// total is the consecutive count of the fleet: one's own and those that live peers reported since the last good answer.
func (r *Registry) total(b *backend, c class) int {
	n := b.counts[c].n
	for _, p := range r.peers {
		if rec, known := p.records[b.id]; known && rec.LastGood == b.lastGood {
			n += rec.count(c)
		}
	}
	return n
}

func (rec *Record) count(c class) int {
	if c == saturated {
		return rec.Saturations
	}
	return rec.Failures
}

// releaseProbe gives the place of a probe back. The breaker stays open with its retryAt, which may have come to be later meanwhile.
func (r *Registry) releaseProbe(b *backend) {
	from := b.state()
	r.clearProbe(b)
	r.announceProbe(b, from)
}

// clearProbe forgets the probe that was out. The turns of the proxies begin anew.
func (r *Registry) clearProbe(b *backend) {
	b.probe = nil
	r.holdProbes(b)
}

// holdProbes lets the turns of the proxies at b's hardware begin now, see recoveryAt.
func (r *Registry) holdProbes(b *backend) {
	now := r.clock.Monotonic()
	for _, m := range r.members(b) {
		m.probesHeldUntil = now
	}
}
