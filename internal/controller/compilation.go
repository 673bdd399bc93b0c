package controller

import (
	"iter"
	"reflect"
	"slices"
	"sync"

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
}

func newCompilation(result compiler.Result, base *compiler.ShardSet) *compilation {
	c := &compilation{Result: result}
	c.shards = c.Shards(base)
	c.naming = sync.OnceValue(c.backends)
	return c
}

// backends indexes the routes by what they name. The order is of no matter: it all goes into a queue.
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

// entriesOf yields the entries of the routes that a pin matches.
func entriesOf(set *compiler.ShardSet, v *compiler.PinVerdict) iter.Seq[*table.Route] {
	return func(yield func(*table.Route) bool) {
		for _, name := range v.MatchedRoutes {
			entry := set.Route(types.NamespacedName{Namespace: v.Key.Namespace, Name: name})
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
	for _, namespace := range c.ChangedSince(&was.Result) {
		changedRoutes, changedPins := c.changedIn(namespace, was)
		routes, pins = append(routes, changedRoutes...), append(pins, changedPins...)
	}
	return routes, pins
}

func (c *compilation) changedIn(namespace string, was *compilation) (routes, pins []types.NamespacedName) {
	allRoutes, allPins := c.In(namespace)
	for _, key := range allRoutes {
		if !sameRoute(c.Routes[key], was.Routes[key]) || !c.samePins(was, key) {
			routes = append(routes, key)
		}
	}
	formerRoutes, _ := was.In(namespace)
	concerned := len(routes) > 0 || slices.ContainsFunc(formerRoutes, func(key types.NamespacedName) bool { return c.Routes[key] == nil })
	for _, key := range allPins {
		if concerned || !samePin(c.Pins[key], was.Pins[key]) {
			pins = append(pins, key)
		}
	}
	return routes, pins
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
