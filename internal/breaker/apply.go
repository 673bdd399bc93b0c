package breaker

import (
	"maps"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/table"
)

// minProbeBound lets an unloaded model load while a probe waits for its token.
const minProbeBound = 2 * time.Minute

// config is what a table says about one backend id. It is immutable.
type config struct {
	backend   *table.Backend // of the first route by key
	namespace string
	names     []string // sorted
	threshold [classes]int
	cooldown  [classes]time.Duration
	waits     waits
	pinned    []chainEntry // the routes with pins
}

// waits are how long requests may wait for a backend. Each route says for itself how long its callers do; requests of our own
// are nobody's, so they wait for all of them.
type waits struct {
	slowAfter    time.Duration // the shortest; 0: off for every route
	grace        time.Duration // coldStartGrace, the longest
	probe        time.Duration // slowAfter and coldStartGrace of one route, the longest
	nonStreaming time.Duration // the longest
}

func (w *waits) merge(s *table.Saturation) {
	if s.SlowAfter > 0 && (w.slowAfter == 0 || s.SlowAfter < w.slowAfter) {
		w.slowAfter = s.SlowAfter
	}
	w.grace = max(w.grace, s.ColdStartGrace)
	w.probe = max(w.probe, s.SlowAfter+s.ColdStartGrace)
	w.nonStreaming = max(w.nonStreaming, s.NonStreamingSlowAfter)
}

// chainEntry is one entry of one route's chain.
type chainEntry struct {
	route *table.Route
	name  string
}

// restedAt says whether an active pin of any route rests the backend at a wall time.
func (c *config) restedAt(wall time.Time) bool {
	for _, n := range c.pinned {
		if slices.Contains(pin.Resting(n.route, wall), n.name) {
			return true
		}
	}
	return false
}

// nextPin returns the first wall time after now at which a pin of the backend's routes starts or ends; zero for none.
func (c *config) nextPin(now time.Time) time.Time {
	var next time.Time
	for _, n := range c.pinned {
		if edge := pin.NextEdge(n.route, now); !edge.IsZero() && (next.IsZero() || edge.Before(next)) {
			next = edge
		}
	}
	return next
}

// probeBound is how long a recovery probe may wait for its first token.
func (c *config) probeBound() time.Duration { return max(c.waits.probe, minProbeBound) }

// lease is how long a probe keeps its place. It is longer than any probe that ends by itself; a caller's with a very long prompt
// says so (Permit.Expect).
func (c *config) lease() time.Duration { return withSlack(max(c.probeBound(), c.waits.nonStreaming)) }

// withSlack is a wait, and a tenth of it for what comes after its end.
func withSlack(wait time.Duration) time.Duration { return wait + wait/10 }

// configs reads what a table says of some backends; nil of one that it does not name.
func configs(t *table.Table, of map[table.BackendID]bool) map[table.BackendID]*config {
	byID := make(map[table.BackendID]*config, len(of))
	for id := range of {
		byID[id] = nil
	}
	if len(of) == 0 {
		return byID
	}
	for _, route := range t.Routes() {
		for i := range route.Chain {
			b := &route.Chain[i]
			c, asked := byID[b.ID]
			if !asked {
				continue
			}
			if c == nil {
				c = &config{
					backend:   b,
					namespace: route.Namespace,
					threshold: [classes]int{b.Failure.Threshold, b.Saturation.Threshold},
					cooldown:  [classes]time.Duration{b.Failure.Cooldown, b.Saturation.Cooldown},
				}
				byID[b.ID] = c
			}
			c.merge(route, b)
		}
	}
	return byID
}

// merge adds one more naming. The compiler gives every route of one backend the same limits, but shards arrive one by
// one: meanwhile the smallest holds.
func (c *config) merge(route *table.Route, b *table.Backend) {
	if at, found := slices.BinarySearch(c.names, b.Name); !found {
		c.names = slices.Insert(c.names, at, b.Name)
	}
	c.threshold[failing] = min(c.threshold[failing], b.Failure.Threshold)
	c.threshold[saturated] = min(c.threshold[saturated], b.Saturation.Threshold)
	c.cooldown[failing] = min(c.cooldown[failing], b.Failure.Cooldown)
	c.cooldown[saturated] = min(c.cooldown[saturated], b.Saturation.Cooldown)
	c.waits.merge(&b.Saturation)
	if len(route.Pins) > 0 {
		c.pinned = append(c.pinned, chainEntry{route, b.Name})
	}
}

// Apply takes a new table: the state of every id that it names is kept, under the new thresholds, cooldowns, groups and
// pins; all others are dropped. It is made to be passed to table.Store.Prepare.
func (r *Registry) Apply(t *table.Table) {
	r.applying.Lock()
	defer r.applying.Unlock()
	byID := configs(t, t.Changed(r.applied)) // the long part, outside of the lock
	r.applied = t

	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	var d tableDiff
	for id, c := range byID {
		r.configure(id, c, now, &d)
	}
	r.reindex(&d)
	var moved []*backend
	if d.grouped {
		moved = r.regroup()
	}
	r.adoptKnown(d.added, now)
	r.joinGroups(moved)
	r.wakeRun()
}

// tableDiff is what a new table makes different.
type tableDiff struct {
	added, gone []*backend
	grouped     bool // it concerns members of groups
}

// configure gives a backend what a new table says of it; nil says that it is named no more.
func (r *Registry) configure(id table.BackendID, c *config, now time.Duration, d *tableDiff) {
	b := (*r.index.Load())[id]
	if b != nil && b.cfg.backend.Group != "" || c != nil && c.backend.Group != "" {
		d.grouped = true
	}
	switch {
	case c == nil && b == nil:
		return
	case c == nil:
		d.gone = append(d.gone, b)
		return
	case b == nil:
		b = &backend{id: id}
		b.calm.Store(true)
		d.added = append(d.added, b)
	case b.isOpen() && b.probesByRequest():
		b.probesHeldUntil = now
	}
	b.cfg = c
}

// reindex gives those who look up an id the backends of a table, where they are not the same as before: most changes of a table
// name what the one before named.
func (r *Registry) reindex(d *tableDiff) {
	if len(d.added)+len(d.gone) == 0 {
		return
	}
	next := maps.Clone(*r.index.Load())
	for _, b := range d.gone {
		r.drop(b)
		delete(next, b.id)
	}
	for _, b := range d.added {
		next[b.id] = b
	}
	r.index.Store(&next)
}

// regroup finds the members of each group anew. It returns those that have come into a group, or left theirs.
func (r *Registry) regroup() (moved []*backend) {
	groups := map[string][]*backend{}
	for _, b := range *r.index.Load() {
		g := b.cfg.backend.Group
		if g != "" {
			groups[g] = append(groups[g], b)
		}
		if g != b.group {
			b.group = g
			moved = append(moved, b)
		}
	}
	r.groups = sortGroups(groups)
	r.rankGeneration++ // a backend may have come into a group
	return moved
}

// drop forgets a backend that no table names. Requests that are out or queued for it go on; their results count nowhere.
func (r *Registry) drop(b *backend) {
	b.calm.Store(false)
	b.gone = true
	for _, j := range b.jobs {
		j.stop()
	}
	if _, listed := r.active[b]; listed {
		delete(r.active, b)
		r.changed(false)
	}
}

func sortGroups(groups map[string][]*backend) map[string][]*backend {
	for name, members := range groups {
		if len(members) < 2 {
			delete(groups, name)
			continue
		}
		slices.SortFunc(members, byID)
	}
	return groups
}
