package compiler

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// sameAsAnew holds a Recompile against a Compile of the same snapshot, and the earlier result against what it was.
func sameAsAnew(t *testing.T, was, is Snapshot) Result {
	t.Helper()
	earlier := Compile(was, goldenNow)
	next := Recompile(&earlier, is, goldenNow)
	for _, pair := range []struct {
		what      string
		got, want Result
	}{
		{"the next result", next, Compile(is, goldenNow)},
		{"the earlier result afterwards", earlier, Compile(was, goldenNow)},
	} {
		if reflect.DeepEqual(pair.got.Routes, pair.want.Routes) && reflect.DeepEqual(pair.got.Pins, pair.want.Pins) &&
			reflect.DeepEqual(pair.got.Table, pair.want.Table) {
			continue // cmp.Diff is slow
		}
		t.Errorf("%s: verdicts and table (-anew +got):\n%s%s%s", pair.what, cmp.Diff(pair.want.Routes, pair.got.Routes),
			cmp.Diff(pair.want.Pins, pair.got.Pins), cmp.Diff(pair.want.Table.Routes(), pair.got.Table.Routes()))
	}
	return next
}

// TestRecompileIsCompile changes a snapshot in each way that a draft depends on.
func TestRecompileIsCompile(t *testing.T) {
	secret := newSecret("tower", map[string]string{"token": "one"})
	strict := func(r *v1alpha1.LLMRoute) { r.Spec.Saturation.Cooldown = "1m" }
	claim := func(r *v1alpha1.LLMRoute) { r.Spec.Model = "a/r" }
	pin := &v1alpha1.BackendPin{Spec: v1alpha1.BackendPinSpec{
		Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinAvoid, Duration: "4h"}}
	pin.Namespace, pin.Name, pin.CreationTimestamp = "a", "p", newRoute("r").CreationTimestamp
	r, s := newRoute("r"), newRoute("s")
	cases := map[string]struct{ was, is Snapshot }{
		"nothing changes":                      {snapshotOf(r, s, secret), snapshotOf(r, s, secret)},
		"a route is edited":                    {snapshotOf(r, s, secret), snapshotOf(newRoute("r", claim), s, secret)},
		"a route is new":                       {snapshotOf(r, secret), snapshotOf(r, s, secret)},
		"a route is gone":                      {snapshotOf(r, s, secret), snapshotOf(s, secret)},
		"a Secret is rotated":                  {snapshotOf(r, s, secret), snapshotOf(r, s, newSecret("tower", map[string]string{"token": "two"}))},
		"a Secret is gone":                     {snapshotOf(r, s, secret), snapshotOf(r, s)},
		"a Secret comes":                       {snapshotOf(r, s), snapshotOf(r, s, secret)},
		"another route lowers a limit":         {snapshotOf(r, secret), snapshotOf(r, newRoute("s", strict), secret)},
		"another route lowers no limit again":  {snapshotOf(r, newRoute("s", strict), secret), snapshotOf(r, secret)},
		"a better claim to the model comes":    {snapshotOf(s, secret), snapshotOf(s, newRoute("q", claim), r, secret)},
		"the holder of the model goes":         {snapshotOf(newRoute("q", claim), r, secret), snapshotOf(r, secret)},
		"a pin comes":                          {snapshotOf(r, s, secret), snapshotOf(r, s, pin, secret)},
		"a pin goes":                           {snapshotOf(r, s, pin, secret), snapshotOf(r, s, secret)},
		"the salt is another":                  {snapshotOf(r, secret), func() Snapshot { s := snapshotOf(r, secret); s.Salt = []byte("other"); return s }()},
		"the domain of the cluster is another": {snapshotOf(r, secret), func() Snapshot { s := snapshotOf(r, secret); s.Options.ClusterDomain = "x"; return s }()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { sameAsAnew(t, tc.was, tc.is) })
	}
}

func TestRecompileTakesOverWhatIsTheSame(t *testing.T) {
	r, s, secret := newRoute("r"), newRoute("s"), newSecret("tower", map[string]string{"token": "one"})
	entryOf := func(r Result, name string) *table.Route { return r.Table.ByKey("a/" + name) }
	was := snapshotOf(r, s, secret)
	earlier := Compile(was, goldenNow)
	next := Recompile(&earlier, snapshotOf(newRoute("r"), s, secret), goldenNow)
	if entryOf(next, "s") != entryOf(earlier, "s") || next.Routes[key("s")] != earlier.Routes[key("s")] {
		t.Error("an unchanged route was read again")
	}
	if entryOf(next, "r") == entryOf(earlier, "r") {
		t.Error("a route that is another object was not read again")
	}
}

// TestRecompileAfterOverflow keeps a verdict of a full table out of the next compile.
func TestRecompileAfterOverflow(t *testing.T) {
	r, secret := newRoute("r"), newSecret("tower", map[string]string{"token": "one"})
	s := snapshotOf(r, secret)
	earlier := Compile(s, goldenNow)
	earlier.tableFull(earlier.Table.ByKey("a/r"), &EncodedShard{})
	if earlier.Routes[key("r")].Programmable {
		t.Fatal("the verdict does not say that the table is full")
	}
	if next := Recompile(&earlier, s, goldenNow); !next.Routes[key("r")].Programmable || len(next.Routes[key("r")].Problems) > 0 {
		t.Errorf("the next verdict is %+v", next.Routes[key("r")])
	}
}

// FuzzRecompileIsCompile changes some objects in odd ways between two compiles.
func FuzzRecompileIsCompile(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	all := goldenSnapshots(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := mutator{rand.New(rand.NewPCG(seed, 2))}
		is := all.Snapshot
		is.Routes, is.Secrets, is.Services = nil, maps.Clone(all.Secrets), maps.Clone(all.Services)
		for _, r := range all.Routes {
			switch m.IntN(4) {
			case 0:
				r = r.DeepCopy()
				m.mutate(reflect.ValueOf(r).Elem())
			case 1:
				r = r.DeepCopy()
			}
			is.Routes = append(is.Routes, r)
		}
		for key, secret := range all.Secrets {
			switch m.IntN(4) {
			case 0:
				delete(is.Secrets, key)
			case 1:
				is.Secrets[key] = &corev1.Secret{ObjectMeta: secret.ObjectMeta, Data: map[string][]byte{"token": []byte("other")}}
			}
		}
		maps.DeleteFunc(is.Services, func(_ types.NamespacedName, _ *corev1.Service) bool { return m.IntN(4) == 0 })
		sameAsAnew(t, all.Snapshot, is)
	})
}
