package compiler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Compile turns a snapshot into the table and the verdict on every object. It never fails and never panics, whatever the
// objects look like. now decides which pins have ended; nothing else depends on it.
func Compile(s Snapshot, now time.Time) Result {
	c := newCompilation(s, now)
	c.readRoutes()
	c.settleModels()
	c.lowerSharedLimits()
	c.applyPins()
	return c.result()
}

// compilation is the state of one compile.
type compilation struct {
	Snapshot
	now        time.Time
	identifier *identifier
	durations  map[v1alpha1.Duration]parsedDuration // a few spellings recur in every route
	bundles    map[Reference]pemVerdict             // verdicts on CA bundles and client pairs, many routes share one

	routes []*routeDraft // sorted by key, one for each verdict
	byKey  map[types.NamespacedName]*routeDraft
	pins   map[types.NamespacedName]*PinVerdict
}

func newCompilation(s Snapshot, now time.Time) *compilation {
	s.Options.ClusterDomain = cmp.Or(s.Options.ClusterDomain, DefaultClusterDomain)
	s.Options.MaxPin = cmp.Or(s.Options.MaxPin, DefaultMaxPin)
	return &compilation{
		Snapshot:   s,
		now:        now,
		identifier: newIdentifier(s.Salt),
		durations:  map[v1alpha1.Duration]parsedDuration{},
		bundles:    map[Reference]pemVerdict{},
		byKey:      make(map[types.NamespacedName]*routeDraft, len(s.Routes)),
		pins:       make(map[types.NamespacedName]*PinVerdict, len(s.Pins)),
	}
}

// readRoutes makes a draft of every route, by itself.
func (c *compilation) readRoutes() {
	for i, object := range c.Snapshot.Routes {
		if object == nil {
			continue
		}
		c.add(c.readRoute(object, i))
	}
	for _, u := range c.Undecodable {
		if u.Kind == KindRoute {
			c.add(undecodableRoute(u))
		}
	}
	slices.SortFunc(c.routes, func(a, b *routeDraft) int { return compareKeys(a.verdict.Key, b.verdict.Key) })
}

func (c *compilation) add(d *routeDraft) {
	if c.byKey[d.verdict.Key] == nil {
		c.byKey[d.verdict.Key] = d
		c.routes = append(c.routes, d)
	}
}

// settleModels gives each model to the best claim and tells the others who has it. A route that is refused for another
// mistake keeps its claim: a typing error must not hand its callers to somebody else's backends.
func (c *compilation) settleModels() {
	holders := make(map[string]*routeDraft, len(c.routes))
	for _, d := range c.routes {
		if d.entry == nil {
			continue
		}
		if holder := holders[d.entry.Model]; holder == nil || d.entry.Beats(holder.entry) {
			holders[d.entry.Model] = d
		}
	}
	for _, d := range c.routes {
		if d.entry == nil {
			continue
		}
		if holder := holders[d.entry.Model]; holder != d {
			d.loseTo(holder)
		}
	}
}

func (c *compilation) result() Result {
	verdicts := make(map[types.NamespacedName]*RouteVerdict, len(c.routes))
	entries := make([]*table.Route, 0, len(c.routes))
	for _, d := range c.routes {
		verdicts[d.verdict.Key] = d.verdict
		if d.entry != nil {
			d.verdict.Programmable = len(d.entry.Chain) > 0
			entries = append(entries, d.entry)
		}
	}
	return Result{Table: table.New(entries), Routes: verdicts, Pins: c.pins}
}
