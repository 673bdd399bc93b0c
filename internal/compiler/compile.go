package compiler

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Compile turns a snapshot into the table and the verdict on every object. It never fails and never panics, whatever the
// objects look like. now decides which pins have ended, and of very many on a route which count; nothing else depends on it.
func Compile(s Snapshot, now time.Time) Result { return Recompile(nil, s, now) }

// Recompile is Compile for a snapshot of which much is as it was at an earlier compile: what was read of the objects that are
// still the same, by pointer, is not read again. earlier may be any Result, or nil; it changes what a compile costs and never
// what comes of it.
func Recompile(earlier *Result, s Snapshot, now time.Time) Result {
	c := newCompilation(s, now)
	c.readRoutes(recall(earlier, &c.Snapshot))
	c.settleModels()
	c.lowerSharedLimits()
	c.applyPins()
	return c.result()
}

// compilation is the state of one compile.
type compilation struct {
	Snapshot
	now    time.Time
	routes []*routeDraft // sorted by key, one for each verdict
	byKey  map[types.NamespacedName]*routeDraft
	pins   map[types.NamespacedName]*PinVerdict
	next   time.Time // see Result.Next
	memory *memory   // for the next compile
}

func newCompilation(s Snapshot, now time.Time) *compilation {
	s.Options.ClusterDomain = cmp.Or(s.Options.ClusterDomain, DefaultClusterDomain)
	s.Options.MaxPin = cmp.Or(s.Options.MaxPin, DefaultMaxPin)
	return &compilation{
		Snapshot: s,
		now:      now,
		byKey:    make(map[types.NamespacedName]*routeDraft, len(s.Routes)),
		routes:   make([]*routeDraft, 0, len(s.Routes)),
		pins:     make(map[types.NamespacedName]*PinVerdict, len(s.Pins)),
	}
}

// reader reads objects one by one. It remembers what recurs in many of them, so each goroutine has its own.
type reader struct {
	*Snapshot
	scratch    v1alpha1.LLMRoute // the route that is being read, with the constant defaults
	identifier *identifier
	durations  map[v1alpha1.Duration]parsedDuration // a few spellings recur in every route
	faults     map[pemKey]string                    // in CA bundles and client pairs, many routes share one
}

func (c *compilation) newReader() *reader {
	return &reader{
		Snapshot:   &c.Snapshot,
		identifier: newIdentifier(c.Salt),
		durations:  map[v1alpha1.Duration]parsedDuration{},
		faults:     map[pemKey]string{},
	}
}

// minPerReader is how many routes are worth a goroutine.
const minPerReader = 500

// readRoutes makes a draft of every route that is not known, by itself, so all processors can take part.
func (c *compilation) readRoutes(known *recollection) {
	drafts := make([]*routeDraft, len(c.Snapshot.Routes))
	size := max(minPerReader, (len(drafts)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for from := 0; from < len(drafts); from += size {
		wait.Go(func() {
			r := c.newReader()
			for i := from; i < min(from+size, len(drafts)); i++ {
				object := c.Snapshot.Routes[i]
				if object == nil {
					continue
				}
				if drafts[i] = known.draft(object); drafts[i] == nil {
					drafts[i] = r.readRoute(object, i)
				}
			}
		})
	}
	wait.Wait()
	c.memory = remember(&c.Snapshot, drafts)
	for _, d := range drafts {
		c.add(d)
	}
	for _, u := range c.Undecodable {
		if u.Kind == KindRoute {
			c.add(undecodableRoute(u))
		}
	}
	slices.SortFunc(c.routes, func(a, b *routeDraft) int { return compareKeys(a.verdict.Key, b.verdict.Key) })
}

// add takes a draft in, as a copy: what was read stays as it is, see routeDraft.own.
func (c *compilation) add(read *routeDraft) {
	if read == nil || c.byKey[read.verdict.Key] != nil {
		return
	}
	d := *read
	c.byKey[d.verdict.Key] = &d
	c.routes = append(c.routes, &d)
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
			entries = append(entries, d.entry)
		}
	}
	return Result{Table: table.New(entries), Routes: verdicts, Pins: c.pins, Next: c.next, memory: c.memory}
}
