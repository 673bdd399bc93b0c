package compiler

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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
	next := nextAsAnew(t, &earlier, is, goldenNow)
	checkSame(t, "the earlier result afterwards", earlier, Compile(was, goldenNow))
	return next
}

// nextAsAnew holds one compile after an earlier one against a Compile of the same snapshot.
func nextAsAnew(t *testing.T, earlier *Result, s Snapshot, now time.Time) Result {
	t.Helper()
	next := Recompile(earlier, s, now)
	checkSame(t, "the next result", next, Compile(s, now))
	changed := next.ChangedSince(earlier)
	for _, r := range []*Result{&next, earlier} {
		for key := range r.Routes {
			same := reflect.DeepEqual(next.Routes[key], earlier.Routes[key]) &&
				reflect.DeepEqual(next.Table().ByKey(key.String()), earlier.Table().ByKey(key.String()))
			if !same && !slices.Contains(changed, key.Namespace) {
				t.Errorf("what the namespace %s comes to has changed, and is not named", key.Namespace)
			}
		}
		for key := range r.Pins {
			if !reflect.DeepEqual(next.Pins[key], earlier.Pins[key]) && !slices.Contains(changed, key.Namespace) {
				t.Errorf("a pin of the namespace %s has changed, and the namespace is not named", key.Namespace)
			}
		}
	}
	return next
}

func checkSame(t *testing.T, what string, got, want Result) {
	t.Helper()
	if reflect.DeepEqual(got.Routes, want.Routes) && reflect.DeepEqual(got.Pins, want.Pins) && got.Next.Equal(want.Next) &&
		reflect.DeepEqual(got.Table(), want.Table()) && reflect.DeepEqual(got.compiled.split(), want.compiled.split()) {
		return // cmp.Diff is slow
	}
	t.Errorf("%s: verdicts and table (-anew +got), next %s and %s:\n%s%s%s", what, want.Next, got.Next, cmp.Diff(want.Routes, got.Routes),
		cmp.Diff(want.Pins, got.Pins), cmp.Diff(want.Table().Routes(), got.Table().Routes()))
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
		"a Secret may not be read any more":    {snapshotOf(r, secret), forbidding(snapshotOf(r))},
		"a Secret may be read again":           {forbidding(snapshotOf(r)), snapshotOf(r, secret)},
		"a Secret that may not be read goes":   {forbidding(snapshotOf(r)), snapshotOf(r)},
		"the salt is another":                  {snapshotOf(r, secret), func() Snapshot { s := snapshotOf(r, secret); s.Salt = []byte("other"); return s }()},
		"the domain of the cluster is another": {snapshotOf(r, secret), func() Snapshot { s := snapshotOf(r, secret); s.Options.ClusterDomain = "x"; return s }()},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { sameAsAnew(t, tc.was, tc.is) })
	}
}

// forbidding says that the Secret of newRoute may not be read.
func forbidding(s Snapshot) Snapshot {
	s.Forbidden = map[Reference]bool{{Kind: KindSecret, Namespace: "a", Name: "tower"}: true}
	return s
}

func TestASecretThatMayNotBeReadIsNotSaidToBeAbsent(t *testing.T) {
	r := Compile(forbidding(snapshotOf(newRoute("r"))), goldenNow)
	problems := r.Routes[key("r")].Problems
	if len(problems) != 1 || !strings.Contains(problems[0].Message, `the manager may not read the Secret "tower"; let its ServiceAccount get Secrets`) {
		t.Errorf("problems are %+v", problems)
	}
}

func TestRecompileTakesOverWhatIsTheSame(t *testing.T) {
	r, s, secret := newRoute("r"), newRoute("s"), newSecret("tower", map[string]string{"token": "one"})
	entryOf := func(r Result, name string) *table.Route { return r.Table().ByKey("a/" + name) }
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
	earlier.tableFull(earlier.Table().ByKey("a/r"), &EncodedShard{})
	if earlier.Routes[key("r")].Programmable {
		t.Fatal("the verdict does not say that the table is full")
	}
	next := Recompile(&earlier, s, goldenNow)
	if !next.Routes[key("r")].Programmable || len(next.Routes[key("r")].Problems) > 0 {
		t.Errorf("the next verdict is %+v", next.Routes[key("r")])
	}
	if changed := next.ChangedSince(&earlier); !slices.Equal(changed, []string{"a"}) {
		t.Errorf("changed is %q, want the namespace of the route that has room again", changed)
	}
	if after := Recompile(&next, s, goldenNow); len(after.ChangedSince(&next)) > 0 {
		t.Errorf("changed is %q, although nothing is", after.ChangedSince(&next))
	}
}

// FuzzRecompileIsCompile changes some objects in odd ways between several compiles, while time passes and clocks are put back.
func FuzzRecompileIsCompile(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	all := goldenSnapshots(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := mutator{rand.New(rand.NewPCG(seed, 2))}
		now := goldenNow
		earlier := Compile(all.Snapshot, now)
		last := all.Snapshot
		for range 4 {
			now = now.Add(time.Duration(m.IntN(9)-2) * 20 * time.Minute)
			last = m.change(all.Snapshot, last)
			earlier = nextAsAnew(t, &earlier, last, now)
		}
	})
}

// change makes a Snapshot of objects of the last one, of odd ones, and of those that all began with.
func (m mutator) change(all, last Snapshot) Snapshot {
	is := all
	is.Routes, is.Pins = changeSome(m, all.Routes, last.Routes), changeSome(m, all.Pins, last.Pins)
	is.Secrets, is.Services = maps.Clone(last.Secrets), maps.Clone(last.Services)
	for key, secret := range all.Secrets {
		switch m.IntN(8) {
		case 0:
			delete(is.Secrets, key)
		case 1:
			is.Secrets[key] = secret
		case 2:
			is.Secrets[key] = &corev1.Secret{ObjectMeta: secret.ObjectMeta, Data: map[string][]byte{"token": []byte("other")}}
		}
	}
	maps.DeleteFunc(is.Services, func(_ types.NamespacedName, _ *corev1.Service) bool { return m.IntN(8) == 0 })
	is.Forbidden = map[Reference]bool{}
	for key := range all.Secrets {
		if m.IntN(8) == 0 {
			delete(is.Secrets, key)
			is.Forbidden[Reference{Kind: KindSecret, Namespace: key.Namespace, Name: key.Name}] = true
		}
	}
	is.Undecodable = nil
	if m.IntN(2) == 0 {
		is.Undecodable = []Undecodable{{Kind: KindRoute, Key: keyOf(all.Routes[0])}, {Kind: KindPin, Key: keyOf(all.Pins[0])}}
	}
	return is
}

// changeSome returns most of what was last, some of it odd, or gone, or as it began, or in another place.
func changeSome[T any, O interface {
	*T
	DeepCopy() *T
}](m mutator, all, last []O) []O {
	var is []O
	for i, object := range last {
		if object == nil {
			continue
		}
		switch m.IntN(12) {
		case 0:
			object = O(object.DeepCopy())
			m.mutate(reflect.ValueOf(object).Elem())
		case 1:
			object = O(object.DeepCopy())
		case 2:
			object = all[i%len(all)]
		case 3:
			continue
		case 4:
			is = append(is, object, nil)
		}
		is = append(is, object)
	}
	if m.IntN(4) == 0 && len(is) > 1 {
		is[0], is[len(is)-1] = is[len(is)-1], is[0]
	}
	return is
}
