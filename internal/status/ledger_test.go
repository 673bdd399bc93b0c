package status

import (
	"fmt"
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
	if diff := cmp.Diff([]string{key.String()}, l.Publish(shard, "0", []*table.Route{r})); diff != "" {
		t.Errorf("fresh (-want +got):\n%s", diff)
	}
	for i := range 2 * history {
		if fresh := l.Publish(shard, table.Revision(fmt.Sprint(i)), []*table.Route{r}); fresh != nil {
			t.Fatalf("fresh = %v, want none", fresh)
		}
	}
	if n := len(l.Holding(key.String(), "", 1)); n != history {
		t.Errorf("%d revisions are remembered, want %d", n, history)
	}
}
