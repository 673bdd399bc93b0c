package controller

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/status"
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

func TestWhatAPublicationConcerns(t *testing.T) {
	routes := func(edited int64) *table.Shard {
		return &table.Shard{Routes: []*table.Route{{Namespace: "a", Name: "kept", Generation: 1}, {Namespace: "a", Name: "edited", Generation: edited}}}
	}
	edited, kept := types.NamespacedName{Namespace: "a", Name: "edited"}, types.NamespacedName{Namespace: "a", Name: "kept"}
	cases := map[string]struct {
		serves table.Revision // of the one proxy
		want   []types.NamespacedName
	}{
		"the routes that are new in it":                            {"before", []types.NamespacedName{edited}},
		"all where a proxy serves it already":                      {"now", []types.NamespacedName{kept, edited}},
		"all where a proxy serves what is forgotten from here on":  {"0", []types.NamespacedName{kept, edited}},
		"the routes that are new where no proxy has the shard yet": {"", []types.NamespacedName{edited}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []types.NamespacedName
			l := &ledger{
				fleet: func() *status.Fleet {
					s := &v1alpha1.ProxyReportStatus{Schema: v1alpha1.ReportSchema}
					if tc.serves != "" {
						s.Tables = []v1alpha1.TableRevision{{Shard: 3, Revision: string(tc.serves)}}
					}
					return status.NewFleet([]status.Report{{Pod: "p", Status: s}})
				},
				fresh: func(keys []types.NamespacedName) { got = keys },
			}
			for i := range 63 { // as many as it remembers, with the next one
				l.publish(3, &compiler.EncodedShard{Shard: routes(1), Revision: table.Revision(strconv.Itoa(i))})
			}
			l.publish(3, &compiler.EncodedShard{Shard: routes(1), Revision: "before"})
			l.publish(3, &compiler.EncodedShard{Shard: routes(2), Revision: "now"})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("concerned (-want +got):\n%s", diff)
			}
		})
	}
}
