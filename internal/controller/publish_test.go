package controller

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// What is compiled is in force only where it can be published; the first failure is mostly a conflict and changes nothing.
func TestWhatCannotBePublishedIsNotInForce(t *testing.T) {
	told := 0
	p := &publisher{onBehind: func() { told++ }}
	p.published[3] = compiler.EncodedShard{Shard: &table.Shard{}, Revision: "published"}
	compiled := &compilation{shards: &compiler.ShardSet{3: {Shard: &table.Shard{}, Revision: "compiled"}}}
	steps := []struct {
		do       func()
		want     table.Revision
		wantTold int
	}{
		{func() { p.fallBehind(false) }, "compiled", 0},
		{func() { p.fallBehind(true) }, "published", 1},
		{func() { p.fallBehind(true) }, "published", 1},
		{func() { p.published[3].Revision = "repaired"; p.fallBehind(true) }, "repaired", 2},
		{func() { p.fallBehind(false) }, "compiled", 3},
		{func() { p.fallBehind(false) }, "compiled", 3},
	}
	for i, s := range steps {
		s.do()
		set, behind := p.inForce(compiled)
		if got := set[3].Revision; got != s.want || behind != (s.want != "compiled") || told != s.wantTold {
			t.Errorf("step %d: %s is in force (behind: %v), told %d times; want %s, told %d times", i+1, got, behind, told, s.want, s.wantTold)
		}
	}
}

// vault is a client that knows one Secret, and refuses what an API server refuses of it.
type vault struct {
	client.Client
	stored *corev1.Secret
	did    []string
}

func (v *vault) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	v.stored.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

func (v *vault) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	if secret := o.(*corev1.Secret); ptr.Deref(v.stored.Immutable, false) || secret.Type != v.stored.Type {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, secret.Name, nil)
	}
	v.did = append(v.did, "update")
	return nil
}

func (v *vault) Delete(_ context.Context, _ client.Object, opts ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(opts)
	v.did = append(v.did, "delete "+*o.Preconditions.ResourceVersion)
	return nil
}

func (v *vault) Create(context.Context, client.Object, ...client.CreateOption) error {
	v.did = append(v.did, "create")
	return nil
}

func TestAShardThatCannotBeUpdatedIsMadeAnew(t *testing.T) {
	cases := map[string]struct {
		kind      corev1.SecretType
		immutable *bool
		want      []string
	}{
		"ours":                          {table.ShardSecretType, nil, []string{"update"}},
		"somebody made it immutable":    {table.ShardSecretType, ptr.To(true), []string{"delete 7", "create"}},
		"somebody gave it another type": {corev1.SecretTypeOpaque, nil, []string{"delete 7", "create"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := &vault{stored: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Type: tc.kind, Immutable: tc.immutable}}
			p := &publisher{
				writer: v, reader: v, owner: &owner{}, ledger: &ledger{fleet: func() *status.Fleet { return nil }, fresh: func([]types.NamespacedName) {}},
			}
			shard := &compiler.EncodedShard{Shard: &table.Shard{}, Revision: "next"}
			if err := errors.Join(p.load(t.Context(), 3), p.write(t.Context(), 3, shard)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, v.did); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
