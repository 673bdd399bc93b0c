package compiler

import (
	"github.com/spillway-dev/spillway/internal/table"
)

// WriteOrder returns the indexes of the shards that differ between what is published and what is to be, in the order in
// which they are to be written: a shard that gains a model before the one that loses it, so that no reader ever finds
// the model nowhere (one that finds it twice applies Route.Beats). Where shards trade models in a circle the smaller
// index goes first. previous may be nil: all are written.
func WriteOrder(previous, next *ShardSet) []int {
	if previous == nil {
		previous = &ShardSet{}
	}
	before := gains(previous, next)
	var todo, order []int
	for i := range next {
		if next[i].Revision != previous[i].Revision {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		at := firstFree(todo, before)
		order = append(order, todo[at])
		todo = append(todo[:at], todo[at+1:]...)
	}
	return order
}

// gains maps each shard that loses models to the set of shards that gain them.
func gains(previous, next *ShardSet) [table.Shards]map[int]bool {
	was, is := modelsOfChanged(previous, next, previous), modelsOfChanged(previous, next, next)
	var before [table.Shards]map[int]bool
	for model, from := range was {
		to, exists := is[model]
		if !exists || to == from {
			continue
		}
		if before[from] == nil {
			before[from] = map[int]bool{}
		}
		before[from][to] = true
	}
	return before
}

// modelsOfChanged maps the models of one of two sets to their shards, of those that differ: no model moves to or from another.
func modelsOfChanged(previous, next, set *ShardSet) map[string]int {
	index := map[string]int{}
	for i := range set {
		if set[i].Shard == nil || previous[i].Revision == next[i].Revision {
			continue
		}
		for _, r := range set[i].Shard.Routes {
			index[r.Model] = i
		}
	}
	return index
}

// firstFree returns the position in todo of the first shard that waits for none of the others, or 0 in a circle.
func firstFree(todo []int, before [table.Shards]map[int]bool) int {
	for at, i := range todo {
		waits := false
		for _, other := range todo {
			waits = waits || before[i][other]
		}
		if !waits {
			return at
		}
	}
	return 0
}
