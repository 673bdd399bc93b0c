package status

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

func TestLedgerKnowsWhichRevisionsHoldAGeneration(t *testing.T) {
	shard := table.ShardOf(key.String())
	route := func(name string, generation int64, created int) *table.Route {
		return &table.Route{Namespace: key.Namespace, Name: name, UID: "one", Generation: generation, Created: time.Unix(int64(created), 0)}
	}
	of := func(uid string, r *table.Route) *table.Route {
		r.UID = uid
		return r
	}
	type publication struct {
		revision table.Revision
		routes   []*table.Route
	}
	mine := key.Name
	cases := map[string]struct {
		published  []publication
		generation int64
		want       map[table.Revision]bool
	}{
		"what was never published is in none": {nil, 1, nil},
		"another generation is in none":       {[]publication{{"a", []*table.Route{route(mine, 1, 0)}}}, 2, nil},
		"a neighbour's edit leaves both revisions good": {
			[]publication{{"a", []*table.Route{route(mine, 1, 0)}}, {"b", []*table.Route{route(mine, 1, 0), route("other", 1, 0)}}},
			1, map[table.Revision]bool{"a": true, "b": true},
		},
		"an edit leaves the new one": {
			[]publication{{"a", []*table.Route{route(mine, 1, 0)}}, {"b", []*table.Route{route(mine, 2, 0)}}},
			2, map[table.Revision]bool{"b": true},
		},
		"a recreated route is not the one before": {
			[]publication{{"a", []*table.Route{route(mine, 1, 0)}}, {"b", []*table.Route{route(mine, 1, 60)}}},
			1, map[table.Revision]bool{"b": true},
		},
		"nor is one that was recreated within the second": {
			[]publication{{"a", []*table.Route{of("zero", route(mine, 1, 0))}}, {"b", []*table.Route{route(mine, 1, 0)}}},
			1, map[table.Revision]bool{"b": true},
		},
		"nor while only the one before is published": {[]publication{{"a", []*table.Route{of("zero", route(mine, 1, 0))}}}, 1, nil},
		"one that an older release published holds on": {
			[]publication{{"a", []*table.Route{of("", route(mine, 1, 0))}}, {"b", []*table.Route{route(mine, 1, 0)}}},
			1, map[table.Revision]bool{"a": true, "b": true},
		},
		"a deleted route is in none": {[]publication{{"a", []*table.Route{route(mine, 1, 0)}}, {"b", nil}}, 1, nil},
		"a revision that comes back holds what it held": {
			[]publication{{"a", []*table.Route{route(mine, 1, 0)}}, {"b", nil}, {"a", []*table.Route{route(mine, 1, 0)}}},
			1, map[table.Revision]bool{"a": true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			for _, p := range tc.published {
				l.Publish(shard, p.revision, p.routes)
			}
			if diff := cmp.Diff(tc.want, l.Holding(key.String(), "one", tc.generation)); diff != "" {
				t.Errorf("revisions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLedgerTellsFreshRoutesAndForgets(t *testing.T) {
	shard := table.ShardOf(key.String())
	r := &table.Route{Namespace: key.Namespace, Name: key.Name, Generation: 1}
	var l Ledger
	fresh, _ := l.Publish(shard, "0", []*table.Route{r})
	if diff := cmp.Diff([]string{key.String()}, fresh); diff != "" {
		t.Errorf("fresh (-want +got):\n%s", diff)
	}
	for i := range 2 * history {
		fresh, forgotten := l.Publish(shard, table.Revision(fmt.Sprint(i+1)), []*table.Route{r})
		if fresh != nil {
			t.Fatalf("fresh = %v, want none", fresh)
		}
		want := table.Revision("")
		if old := i + 1 - history; old >= 0 {
			want = table.Revision(fmt.Sprint(old))
		}
		if forgotten != want {
			t.Fatalf("publication %d: forgotten = %q, want %q", i+1, forgotten, want)
		}
	}
	if n := len(l.Holding(key.String(), "", 1)); n != history {
		t.Errorf("%d revisions are remembered, want %d", n, history)
	}
}

func TestARevisionThatIsPublishedAgainIsNotForgotten(t *testing.T) {
	shard := table.ShardOf(key.String())
	var l Ledger
	for i := range history + 1 {
		revision := table.Revision("other")
		if i == 0 || i == history-1 {
			revision = "back"
		}
		if _, forgotten := l.Publish(shard, revision, nil); forgotten != "" {
			t.Errorf("publication %d: %q is forgotten, want none", i, forgotten)
		}
	}
}

// Whatever was published, a move concerns exactly the routes whose generation one of its revisions holds and the other does not.
func TestConcernedAgreesWithHolding(t *testing.T) {
	shard := table.ShardOf(key.String())
	random := rand.New(rand.NewPCG(1, 2))
	var names []string // of one shard
	for i := 0; len(names) < 4; i++ {
		if name := fmt.Sprint(i); table.ShardOf("n/"+name) == shard {
			names = append(names, name)
		}
	}
	for round := range 200 {
		var l Ledger
		generations := map[string]int64{}
		var revisions []table.Revision
		for i := range 1 + random.IntN(history+20) {
			var routes []*table.Route
			for _, name := range names {
				if random.IntN(3) == 0 {
					generations[name]++
				}
				if random.IntN(5) > 0 {
					routes = append(routes, &table.Route{Namespace: "n", Name: name, Generation: generations[name]})
				}
			}
			revision := table.Revision(fmt.Sprint(i))
			if len(revisions) > 0 && random.IntN(4) == 0 {
				revision = revisions[random.IntN(len(revisions))]
			}
			revisions = append(revisions, revision)
			l.Publish(shard, revision, routes)
		}
		revisions = append(revisions, "", "never published")
		for range 50 {
			m := Move{shard, revisions[random.IntN(len(revisions))], revisions[random.IntN(len(revisions))]}
			var want []string
			for _, name := range names {
				if holding := l.Holding("n/"+name, "", generations[name]); holding[m.From] != holding[m.To] {
					want = append(want, "n/"+name)
				}
			}
			slices.Sort(want) // of numbers as texts
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(l.Concerned(m)))); diff != "" {
				t.Fatalf("round %d, %v (-want +got):\n%s", round, m, diff)
			}
		}
	}
}
