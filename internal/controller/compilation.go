package controller

import (
	"iter"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

// compilation is one finished compile with its indexes. It is immutable.
type compilation struct {
	compiler.Result
	shards    *compiler.ShardSet
	byShard   [table.Shards][]types.NamespacedName
	byBackend map[table.BackendID][]types.NamespacedName
	// By namespace, where all that pins concern stays: the pins, and when they start and end.
	pinsIn   map[string][]types.NamespacedName
	pinEdges map[string][]time.Time
}

// index fills in the indexes. The order of what they hold is of no matter: it all goes into a queue.
func (c *compilation) index() {
	c.byBackend = make(map[table.BackendID][]types.NamespacedName, 2*len(c.Routes))
	c.pinsIn, c.pinEdges = map[string][]types.NamespacedName{}, map[string][]time.Time{}
	for key, v := range c.Routes {
		shard := table.ShardOf(key.String())
		c.byShard[shard] = append(c.byShard[shard], key)
		for i := range v.Backends {
			if id := v.Backends[i].ID; id != "" {
				c.byBackend[id] = append(c.byBackend[id], key)
			}
		}
	}
	for key, v := range c.Pins {
		c.pinsIn[key.Namespace] = append(c.pinsIn[key.Namespace], key)
		c.pinEdges[key.Namespace] = append(c.pinEdges[key.Namespace], v.StartsAt, v.ExpiresAt)
	}
	for _, edges := range c.pinEdges {
		slices.SortFunc(edges, time.Time.Compare)
	}
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
	for shard, keys := range c.byShard {
		same := c.shards[shard].Revision == was.shards[shard].Revision
		for _, key := range keys {
			if sameRoute(c.Routes[key], was.Routes[key]) && (same || samePins(c.shards.Route(key), was.shards.Route(key))) {
				continue
			}
			routes = append(routes, key)
			concerned[key.Namespace] = true
		}
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

// samePins says whether two entries of a route have the same pins; what else is in an entry shows in the verdict.
func samePins(a, b *table.Route) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return slices.EqualFunc(a.Pins, b.Pins, func(a, b table.Pin) bool { return reflect.DeepEqual(a, b) })
}
