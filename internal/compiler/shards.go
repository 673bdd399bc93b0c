package compiler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// EncodedShard is one shard as it is published. The zero value is a shard of which nothing is known.
type EncodedShard struct {
	Shard    *table.Shard   // what Data holds
	Data     []byte         // what table.Decode reads; at most table.MaxShardBytes
	Revision table.Revision // of Data; equal revisions are equal shards
}

// ShardSet is the whole table as it is published, by shard index.
type ShardSet [table.Shards]EncodedShard

// Route returns the entry of a route as it is published, or nil. It is the one of Result.Table unless the route was left out
// (ReasonTableFull).
func (s *ShardSet) Route(key types.NamespacedName) *table.Route {
	return entryOf(&s[table.ShardOf(key.String())], key.String())
}

// Shards encodes the table. previous is what is published now: the set that the last call returned, or what a starting
// manager decoded; nil where nothing is known. A shard whose routes did not change is taken over without encoding it.
//
// Where a shard would grow over table.MaxShardBytes, the routes that made it grow most are left out, one by one, until it
// fits; each keeps its entry of previous, if it had one. Such a route gets a problem with reason TableFull in its verdict
// and stops being programmable, so call Shards before status is computed.
func (r *Result) Shards(previous *ShardSet) *ShardSet {
	if previous == nil {
		previous = &ShardSet{}
	}
	set := &ShardSet{}
	for i, shard := range r.compiled.split() {
		var left []*table.Route
		set[i], left = encodeShard(shard, &previous[i])
		for _, route := range left {
			r.tableFull(route, &previous[i])
		}
	}
	return set
}

// split distributes the routes over their shards, each sorted by key.
func (c *compilation) split() [table.Shards]*table.Shard {
	var shards [table.Shards]*table.Shard
	for i := range shards {
		shards[i] = &table.Shard{Schema: table.Schema, Routes: []*table.Route{}}
	}
	for _, n := range c.ordered {
		for _, e := range n.entries {
			shards[e.shard].Routes = append(shards[e.shard].Routes, e.route)
		}
	}
	return shards
}

// tableFull says in a route's verdict that its entry did not fit.
func (r *Result) tableFull(route *table.Route, previous *EncodedShard) {
	key := types.NamespacedName{Namespace: route.Namespace, Name: route.Name}
	read := r.Routes[key]
	if read == nil {
		return
	}
	if r.full == nil {
		r.full, r.Routes = map[string]bool{}, maps.Clone(r.Routes) // which the next compile may take over, as the verdict
	}
	v := new(RouteVerdict)
	*v = *read
	r.full[key.Namespace], r.Routes[key] = true, v
	serving := "it is not served"
	if entryOf(previous, route.Key()) != nil {
		serving = "its last published version is served on"
	}
	v.Programmable = false
	v.Problems = append(slices.Clip(v.Problems), Problem{
		Condition: v1alpha1.ConditionAccepted,
		Reason:    v1alpha1.ReasonTableFull,
		Field:     "spec",
		Message: fmt.Sprintf("The route does not fit into its shard of the table (%s, at most %d bytes), so %s; make it smaller, "+
			"for example with smaller CA bundles or fewer headers, or delete routes of the same shard.",
			table.ShardName(table.ShardOf(route.Key())), table.MaxShardBytes, serving),
	})
}

// encodeShard returns the shard that is to be published and the routes whose new entry is not in it.
func encodeShard(shard *table.Shard, previous *EncodedShard) (EncodedShard, []*table.Route) {
	if previous.Shard != nil && previous.Shard.Schema == shard.Schema && equalRoutes(previous.Shard.Routes, shard.Routes) {
		return *previous, nil
	}
	if whole, fits := encode(shard, previous); fits {
		return whole, nil
	}
	growth := byGrowth(shard, previous)
	var reduced EncodedShard // the last one that fits
	leaveOut := func(n int) (fits bool) {
		encoded, fits := encode(without(shard, growth[:n], previous), previous)
		if fits {
			reduced = encoded
		}
		return fits
	}
	// The smallest number of routes to leave out: one at least, and all if no smaller number is seen to do. Leaving out more
	// never makes a shard larger, apart from what compression makes of it, so the search lands on a number that fits.
	all := len(growth)
	n := min(all, 1+sort.Search(all-1, func(i int) bool { return leaveOut(1 + i) }))
	if n < all || leaveOut(all) {
		return reduced, growth[:n]
	}
	// Not even what is published can be encoded again: leave it as it is.
	return *previous, growth
}

func encode(shard *table.Shard, previous *EncodedShard) (encoded EncodedShard, fits bool) {
	data, revision, err := shard.Encode(previous.Shard)
	if err != nil || len(data) > table.MaxShardBytes {
		return EncodedShard{}, false
	}
	return EncodedShard{Shard: shard, Data: data, Revision: revision}, true
}

// byGrowth returns the routes that are new or changed, the one that adds most to the shard first.
func byGrowth(shard *table.Shard, previous *EncodedShard) []*table.Route {
	added := map[*table.Route]int{}
	var changed []*table.Route
	for _, route := range shard.Routes {
		was := entryOf(previous, route.Key())
		if was != nil && equalRoute(was, route) {
			continue
		}
		added[route] = sizeOf(route) - sizeOf(was)
		changed = append(changed, route)
	}
	slices.SortFunc(changed, func(a, b *table.Route) int {
		return cmp.Or(cmp.Compare(added[b], added[a]), strings.Compare(a.Key(), b.Key()))
	})
	return changed
}

// without returns the shard with the entries of previous in place of some routes, or without them where there is none.
func without(shard *table.Shard, left []*table.Route, previous *EncodedShard) *table.Shard {
	reduced := &table.Shard{Schema: shard.Schema, Routes: make([]*table.Route, 0, len(shard.Routes))}
	for _, route := range shard.Routes {
		if slices.Contains(left, route) {
			route = entryOf(previous, route.Key())
		}
		if route != nil {
			reduced.Routes = append(reduced.Routes, route)
		}
	}
	return reduced
}

// entryOf returns the published entry of a route, or nil. The routes of a shard are sorted by key.
func entryOf(published *EncodedShard, key string) *table.Route {
	if published.Shard == nil {
		return nil
	}
	at, found := slices.BinarySearchFunc(published.Shard.Routes, key, func(r *table.Route, key string) int {
		return strings.Compare(r.Key(), key)
	})
	if !found {
		return nil
	}
	return published.Shard.Routes[at]
}

func sizeOf(route *table.Route) int {
	if route == nil {
		return 0
	}
	one := table.Shard{Routes: []*table.Route{route}}
	data, _, err := one.Encode(nil)
	if err != nil {
		return table.MaxShardBytes + 1 // what cannot be encoded goes first
	}
	return len(data)
}
