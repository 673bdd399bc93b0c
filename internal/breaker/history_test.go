package breaker

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

const (
	reportsLive  = 45 * time.Second
	reportsRenew = 15 * time.Second
	// newsWithin is how long a change takes from one proxy to another at most: reports are gathered for a second, spread over
	// another one, and travel.
	newsWithin = 3 * time.Second
)

// history is a fleet of running proxies, in a synctest bubble, to which things happen at random: callers, backends that go busy or
// down or are well again, pins, edits, proxies that start, die or are cut off. Reports travel as in a cluster: openings and
// closings at once, the rest gathered, all with random delays.
type history struct {
	t    *testing.T
	seed uint64
	rnd  *rand.Rand // of what happens
	news *rand.Rand // of how long reports travel; guarded by mu
	ctx  context.Context
	jobs sync.WaitGroup

	mu       sync.Mutex
	backends []table.Backend
	pins     []table.Pin
	health   map[table.BackendID]Kind
	pods     []*pod
	born     int
	unquiet  time.Time // until then two proxies may differ in who is there
	outs     []*out
	probed   map[table.BackendID][]time.Time // when the proxies probed of their own, not long ago
}

// pod is one proxy of the history.
type pod struct {
	*Registry
	h               *history
	stop            context.CancelFunc
	cut             bool // off the API server
	urgent, changed chan struct{}
	seen, written   map[string]time.Time // when each other's report came last, and when that was written
}

// out is one probe, of the proxy's own or a caller's.
type out struct {
	pod       *pod
	id        table.BackendID
	since     time.Time
	synthetic bool
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Errorf("seed %d: "+format, append([]any{h.seed}, args...)...)
}

func (h *history) start() {
	h.born++
	ctx, stop := context.WithCancel(h.ctx)
	p := &pod{h: h, stop: stop, urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1), seen: map[string]time.Time{}, written: map[string]time.Time{}}
	p.Registry = New(Options{Self: fmt.Sprintf("pod-%d", h.born)})
	p.OnChange(func(urgent bool) {
		ch := p.changed
		if urgent {
			ch = p.urgent
		}
		select {
		case ch <- struct{}{}:
		default:
		}
	})
	p.Apply(h.table())
	for _, other := range h.pods {
		if !other.cut {
			p.hear(other.self, other.Records())
		}
	}
	h.pods = append(h.pods, p)
	p.tellPeers()
	h.jobs.Go(func() { p.Run(ctx, p) })
	h.jobs.Go(func() { p.write(ctx) })
}

func (h *history) table() *table.Table {
	return routeOf(slices.Clone(h.pins), slices.Clone(h.backends)...)
}

// write is what the fleet package does with a proxy's report.
func (p *pod) write(ctx context.Context) {
	sweep := time.NewTicker(5 * time.Second)
	defer sweep.Stop()
	var last []Record
	due, renew := time.Now(), true
	var written time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			p.sweep()
			continue
		case <-p.urgent:
			renew = false
		case <-p.changed:
			if soon := written.Add(time.Second); soon.Before(due) {
				due, renew = soon, false
			}
			if short := time.Now().Add(50 * time.Millisecond); due.Before(short) {
				due = short
			}
			continue
		case <-time.After(time.Until(due)):
		}
		records := p.Records()
		if renew || !slices.EqualFunc(records, last, func(a, b Record) bool { return a.ID == b.ID && a.sameEvidence(&b) }) {
			last, written = records, time.Now()
			p.publish(records)
		}
		due, renew = written.Add(reportsRenew), true
	}
}

// publish brings a report to all that are not cut off, each after a delay of its own.
func (p *pod) publish(records []Record) {
	h := p.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.cut {
		return
	}
	at := time.Now()
	for _, to := range h.pods {
		if to == p {
			continue
		}
		delay := time.Duration(h.news.IntN(300)) * time.Millisecond
		h.jobs.Go(func() {
			select {
			case <-time.After(delay):
			case <-h.ctx.Done():
				return
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			if !to.cut && slices.Contains(h.pods, p) && !at.Before(to.written[p.self]) {
				to.written[p.self] = at
				to.hear(p.self, slices.Clone(records))
				to.tellPeers()
			}
		})
	}
}

func (p *pod) hear(name string, records []Record) {
	p.seen[name] = time.Now()
	p.Adopt(name, records)
}

// sweep forgets those that have been silent for too long.
func (p *pod) sweep() {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	for name, at := range p.seen {
		if time.Since(at) >= reportsLive {
			delete(p.seen, name)
			p.Forget(name)
			p.tellPeers()
		}
	}
}

func (p *pod) tellPeers() {
	live := []string{p.self}
	live = slices.AppendSeq(live, maps.Keys(p.seen))
	slices.Sort(live)
	if !slices.Equal(live, p.live) {
		p.SetPeers(live)
	}
}

// Probe answers as the backend does now.
func (p *pod) Probe(ctx context.Context, req ProbeRequest) Result {
	h := p.h
	var done func()
	if req.Purpose == Recovery {
		done = h.goesOut(&out{pod: p, id: req.ID, synthetic: true})
		defer done()
	}
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
		return Result{}
	}
	h.mu.Lock()
	kind := h.health[req.ID]
	h.mu.Unlock()
	if kind == Silent {
		<-ctx.Done()
		return Result{}
	}
	return Result{Kind: kind}
}

// goesOut notes a probe and checks that it is the only one of the fleet at its hardware.
func (h *history) goesOut(o *out) (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.since = time.Now()
	for _, other := range h.outs {
		known := time.Since(other.since) > newsWithin || o.synthetic && other.synthetic
		if known && h.hardware(o.id) == h.hardware(other.id) && time.Now().After(h.unquiet) {
			h.fail("%s (%v) asks %s while %s (%v, since %s) is at %s", o.pod.self, o.synthetic, o.id, other.pod.self, other.synthetic, time.Since(other.since), other.id)
		}
	}
	if o.synthetic {
		h.isNoStorm(o.id)
	}
	h.outs = append(h.outs, o)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.outs = slices.DeleteFunc(h.outs, func(other *out) bool { return other == o })
	}
}

// isNoStorm checks that one probe does not follow the other without a cooldown between them. Pins, edits and deaths call for a few.
func (h *history) isNoStorm(id table.BackendID) {
	recent := slices.DeleteFunc(h.probed[id], func(at time.Time) bool { return time.Since(at) >= failCooldown })
	if h.probed[id] = append(recent, time.Now()); len(recent) > 5 {
		h.fail("%s is probed on and on: %v", id, recent)
	}
}

func (h *history) hardware(id table.BackendID) string {
	for i := range h.backends {
		if h.backends[i].ID == id && h.backends[i].Group != "" {
			return h.backends[i].Group
		}
	}
	return string(id)
}
