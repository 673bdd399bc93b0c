package compiler

import (
	"cmp"
	"maps"
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

// Recompile is Compile for a snapshot of which much is as it was at an earlier compile: a namespace in which all objects are
// still the same, by pointer, is taken over as it is. earlier may be any Result, or nil; it changes what a compile costs and
// never what comes of it.
func Recompile(earlier *Result, s Snapshot, now time.Time) Result {
	c := newCompilation(s, now)
	c.recall(earlier)
	c.divide()
	c.readRoutes()
	c.settleModels()
	c.finish()
	return c.result()
}

// compilation is one compile. Once it is finished it does not change, and the next one takes over what it can.
type compilation struct {
	Snapshot
	now     time.Time
	earlier *compilation // an empty one where nothing is known; nil once finished
	// changed are the objects that routes may refer to and that are not the same as at the earlier compile, changedIn their
	// namespaces.
	changed   map[Reference]bool
	changedIn map[string]bool

	namespaces map[string]*namespace
	ordered    []*namespace                      // once finished
	starts     map[*v1alpha1.LLMRoute]*namespace // by the first route of each in the Snapshot
	claims     map[string]claim                  // by model

	routes map[types.NamespacedName]*RouteVerdict
	pins   map[types.NamespacedName]*PinVerdict
}

func newCompilation(s Snapshot, now time.Time) *compilation {
	s.Options.ClusterDomain = cmp.Or(s.Options.ClusterDomain, DefaultClusterDomain)
	s.Options.MaxPin = cmp.Or(s.Options.MaxPin, DefaultMaxPin)
	return &compilation{
		Snapshot:   s,
		now:        now,
		earlier:    &compilation{},
		namespaces: map[string]*namespace{},
		starts:     map[*v1alpha1.LLMRoute]*namespace{},
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

// readRoutes makes a draft of every route that is not known.
func (c *compilation) readRoutes() {
	var unread []unreadRoute
	for _, n := range c.namespaces {
		unread = append(unread, n.recallDrafts(c)...)
	}
	inParallel(unread, 500, func(part []unreadRoute) {
		r := c.newReader()
		for _, u := range part {
			*u.draft = r.readRoute(u.object, u.position)
		}
	})
}

// finish decides what the routes and pins of each namespace come to.
func (c *compilation) finish() {
	var unfinished []*namespace
	for name, n := range c.namespaces {
		if known := c.earlier.namespaces[name]; known != nil && !n.changed && known.holdsAt(c.now) {
			c.namespaces[name] = known
		} else {
			unfinished = append(unfinished, n)
		}
	}
	inParallel(unfinished, 5, func(part []*namespace) {
		r := c.newReader()
		for _, n := range part {
			n.finish(c, r)
		}
	})
}

// inParallel has do called with all items, in parts of at least least, one for each processor at most.
func inParallel[T any](items []T, least int, do func(part []T)) {
	size := max(least, (len(items)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for part := range slices.Chunk(items, size) {
		wait.Go(func() { do(part) })
	}
	wait.Wait()
}

// result collects what the namespaces came to, and lets go of what the next compile has no use for.
func (c *compilation) result() Result {
	c.routes = patched(c.earlier.routes, c, func(n *namespace, set func(types.NamespacedName, *RouteVerdict)) {
		for _, v := range n.verdicts {
			set(v.Key, v)
		}
	})
	c.pins = patched(c.earlier.pins, c, func(n *namespace, set func(types.NamespacedName, *PinVerdict)) {
		for _, v := range n.pinVerdicts {
			set(v.Key, v)
		}
	})
	r := Result{Routes: c.routes, Pins: c.pins, compiled: c}
	for _, n := range c.namespaces {
		if !n.next.IsZero() && (r.Next.IsZero() || n.next.Before(r.Next)) {
			r.Next = n.next
		}
	}
	c.ordered = slices.SortedFunc(maps.Values(c.namespaces), compareNamespaces)
	r.table = sync.OnceValue(c.table)
	c.earlier, c.changed, c.changedIn, c.Snapshot.Routes, c.Snapshot.Pins, c.Snapshot.Undecodable = nil, nil, nil, nil, nil, nil
	return r
}

func (c *compilation) table() *table.Table {
	var routes []*table.Route
	for _, n := range c.ordered {
		for _, e := range n.entries {
			routes = append(routes, e.route)
		}
	}
	return table.New(routes)
}
