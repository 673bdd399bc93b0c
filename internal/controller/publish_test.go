package controller

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestAShardWaitsForTheOneThatGetsItsModel(t *testing.T) {
	shard := func(models ...string) *compiler.EncodedShard {
		s := &table.Shard{}
		for _, m := range models {
			s.Routes = append(s.Routes, &table.Route{Model: m})
		}
		return &compiler.EncodedShard{Shard: s}
	}
	cases := map[string]struct {
		was, next *compiler.EncodedShard
		missing   []*table.Route
		want      bool
	}{
		"nothing failed":                   {shard("a"), shard(), nil, false},
		"it drops a model that is missing": {shard("a"), shard(), []*table.Route{{Model: "a"}}, true},
		"it drops another one":             {shard("a"), shard(), []*table.Route{{Model: "b"}}, false},
		"it keeps the model":               {shard("a"), shard("a", "b"), []*table.Route{{Model: "a"}}, false},
		"it was never there":               {&compiler.EncodedShard{}, shard("b"), []*table.Route{{Model: "a"}}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := takesAway(tc.was, tc.next, tc.missing); got != tc.want {
				t.Errorf("takesAway = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOwnWritesAreNoNews(t *testing.T) {
	cases := map[string]struct {
		known, seen string
		want        bool
	}{
		"our own write":            {"7", "7", false},
		"news from before it":      {"7", "6", false},
		"somebody's later write":   {"7", "8", true},
		"a deletion":               {"7", "", true},
		"one that we do not have":  {"", "7", true},
		"one that was never there": {"", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &publisher{wake: newSignal(), seen: map[int]bool{}}
			p.know(3, tc.known)
			p.noticed(3, tc.seen)
			if got := raised(p.wake); got != tc.want || p.seen[3] != tc.want {
				t.Errorf("woken = %v, to be read = %v, want both %v", got, p.seen[3], tc.want)
			}
		})
	}
}
