package controller

import (
	"iter"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// compilation is one finished compile with its indexes. It does not change.
type compilation struct {
	compiler.Result
	shards *compiler.ShardSet
	// naming is the routes that name a backend. Few compilations are asked for it.
	naming func() map[table.BackendID][]types.NamespacedName
	// pinEdges are when pins start and end, by namespace, where all that pins concern stays.
	pinEdges map[string][]time.Time
}

// index fills in the indexes. The order of what they hold is of no matter: it all goes into a queue.
func (c *compilation) index() {
	c.naming = sync.OnceValue(c.backends)
	c.pinEdges = map[string][]time.Time{}
	for key, v := range c.Pins {
		c.pinEdges[key.Namespace] = append(c.pinEdges[key.Namespace], v.StartsAt, v.ExpiresAt)
	}
	for _, edges := range c.pinEdges {
		slices.SortFunc(edges, time.Time.Compare)
	}
}

func (c *compilation) backends() map[table.BackendID][]types.NamespacedName {
	routes := make(map[table.BackendID][]types.NamespacedName, 2*len(c.Routes))
	for key, v := range c.Routes {
		for i := range v.Backends {
			if id := v.Backends[i].ID; id != "" {
				routes[id] = append(routes[id], key)
			}
		}
	}
	return routes
}

// nextPinEdge is when the next pin of a namespace starts or ends after now; zero where none does.
func (c *compilation) nextPinEdge(namespace string, now time.Time) time.Time {
	edges := c.pinEdges[namespace]
	at, found := slices.BinarySearchFunc(edges, now, time.Time.Compare)
	for found && at < len(edges) && !edges[at].After(now) {
		at++
	}
	if at == len(edges) {
		return time.Time{}
	}
	return edges[at]
}

// entriesOf yields the entries of the routes that a pin matches.
func (c *compilation) entriesOf(v *compiler.PinVerdict) iter.Seq[*table.Route] {
	return func(yield func(*table.Route) bool) {
		for _, name := range v.MatchedRoutes {
			entry := c.shards.Route(types.NamespacedName{Namespace: v.Key.Namespace, Name: name})
			if entry != nil && !yield(entry) {
				return
			}
		}
	}
}

// changedFrom returns the routes and pins of c, and those that were in an earlier compilation, whose verdict or entry
// differs. A pin is concerned, too, when a route of its namespace is.
func (c *compilation) changedFrom(was *compilation) (routes, pins []types.NamespacedName) {
	if was == nil {
		was = &compilation{shards: &compiler.ShardSet{}}
	}
	concerned := c.namespacesThatLost(was)
	for key, v := range c.Routes {
		if sameRoute(v, was.Routes[key]) && c.samePins(was, key) {
			continue
		}
		routes = append(routes, key)
		concerned[key.Namespace] = true
	}
	for key, v := range c.Pins {
		if concerned[key.Namespace] || !samePin(v, was.Pins[key]) {
			pins = append(pins, key)
		}
	}
	return routes, pins
}

// namespacesThatLost are those of the routes that were in an earlier compilation and are not in c.
func (c *compilation) namespacesThatLost(was *compilation) map[string]bool {
	lost := map[string]bool{}
	for key := range was.Routes {
		if c.Routes[key] == nil {
			lost[key.Namespace] = true
		}
	}
	return lost
}

func sameRoute(a, b *compiler.RouteVerdict) bool { return a == b || reflect.DeepEqual(a, b) }

// samePin is reflect.DeepEqual that takes the short way with the lists, which may be long.
func samePin(a, b *compiler.PinVerdict) bool {
	if a == nil || b == nil {
		return a == b
	}
	if !slices.Equal(a.MatchedRoutes, b.MatchedRoutes) || !slices.Equal(a.MissingIn, b.MissingIn) {
		return false
	}
	short, other := *a, *b
	short.MatchedRoutes, short.MissingIn, other.MatchedRoutes, other.MissingIn = nil, nil, nil, nil
	return reflect.DeepEqual(short, other)
}

// samePins says whether the entry of a route has the same pins as in an earlier compilation; what else is in an entry shows in the
// verdict.
func (c *compilation) samePins(was *compilation, key types.NamespacedName) bool {
	if shard := table.ShardOf(key.String()); c.shards[shard].Revision == was.shards[shard].Revision {
		return true
	}
	a, b := c.shards.Route(key), was.shards.Route(key)
	if a == nil || b == nil || a == b {
		return a == b
	}
	return slices.EqualFunc(a.Pins, b.Pins, func(a, b table.Pin) bool { return reflect.DeepEqual(a, b) })
}
