package compiler

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// oddStrings are values that a field may hold where no schema was applied, or an older one.
var oddStrings = []string{
	"", "a", "-1", "0s", "30s", "99999h", "1d", "abc", "http://[::1", "http://h", "https://h/v1?x=%zz", "h:80", "\x00", "\xff\xfe",
	"a\nb", "Prefer", "Only", "Synthetic", "Header", "Authorization", "tower", "token", "a/b", "../..", strings.Repeat("x", 5000),
}

// mutator puts odd values into objects.
type mutator struct{ *rand.Rand }

// mutate walks a value and replaces some of what it meets.
func (m mutator) mutate(v reflect.Value) {
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		if m.IntN(3) == 0 {
			v.Set(reflect.ValueOf(metav1.Time{Time: time.Unix(m.Int64N(1<<38)-1<<37, 0)}))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		m.mutatePointer(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				m.mutate(v.Field(i))
			}
		}
	case reflect.Slice:
		m.mutateSlice(v)
	case reflect.String:
		if m.IntN(6) == 0 {
			v.SetString(oddStrings[m.IntN(len(oddStrings))])
		}
	case reflect.Int32, reflect.Int64:
		if m.IntN(6) == 0 {
			v.SetInt([]int64{-1, 0, 1, math.MaxInt32, math.MinInt32, 80}[m.IntN(6)])
		}
	}
}

func (m mutator) mutatePointer(v reflect.Value) {
	if m.IntN(6) == 0 {
		v.SetZero()
		return
	}
	if v.IsNil() && m.IntN(3) == 0 {
		v.Set(reflect.New(v.Type().Elem()))
	}
	if !v.IsNil() {
		m.mutate(v.Elem())
	}
}

func (m mutator) mutateSlice(v reflect.Value) {
	for range m.IntN(3) * m.IntN(2) * m.IntN(2) {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	}
	for i := range v.Len() {
		m.mutate(v.Index(i))
	}
}

// goldenSnapshots is the objects of several golden cases in one.
func goldenSnapshots(tb testing.TB) testSnapshot {
	tb.Helper()
	all := emptySnapshot()
	for _, file := range []string{"founding", "references", "pins"} {
		one := readSnapshot(tb, "testdata/"+file+".in.yaml")
		all.Routes, all.Pins = append(all.Routes, one.Routes...), append(all.Pins, one.Pins...)
		maps.Copy(all.Secrets, one.Secrets)
		maps.Copy(all.ConfigMaps, one.ConfigMaps)
		maps.Copy(all.Services, one.Services)
	}
	return all
}

// FuzzCompileNeverPanics mutates the objects of the golden cases and holds the result against what must always be true.
func FuzzCompileNeverPanics(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	all := goldenSnapshots(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := mutator{rand.New(rand.NewPCG(seed, 1))}
		s := deepCopy(all.Snapshot)
		for _, r := range s.Routes {
			m.mutate(reflect.ValueOf(r).Elem())
		}
		for _, p := range s.Pins {
			m.mutate(reflect.ValueOf(p).Elem())
		}
		s.Routes, s.Pins = append(s.Routes, nil), append(s.Pins, nil)
		s.Options.Standalone = seed%2 == 0
		checkInvariants(t, s, Compile(s, goldenNow))
	})
}

func checkInvariants(t *testing.T, s Snapshot, r Result) {
	t.Helper()
	for _, object := range s.Routes {
		if object != nil && r.Routes[keyOf(object)] == nil {
			t.Errorf("no verdict on the route %s", keyOf(object))
		}
	}
	for _, object := range s.Pins {
		if object != nil && r.Pins[keyOf(object)] == nil {
			t.Errorf("no verdict on the pin %s", keyOf(object))
		}
	}
	for _, v := range r.SortedRoutes() {
		checkVerdict(t, &r, v)
	}
	for _, route := range r.Table().Routes() {
		if _, err := json.Marshal(route); err != nil {
			t.Errorf("an entry cannot be published: %v", err)
		}
		if held := r.Table().ByModel(route.Model); held != route {
			t.Errorf("two entries claim one model")
		}
	}
	for _, object := range s.Routes {
		References(object)
	}
}

func checkVerdict(t *testing.T, r *Result, v *RouteVerdict) {
	t.Helper()
	entry := r.Table().ByKey(v.Key.Namespace + "/" + v.Key.Name)
	if v.Programmable != (entry != nil && len(entry.Chain) > 0) {
		t.Errorf("programmable is %v and the entry %v", v.Programmable, entry)
	}
	if !v.Programmable && len(v.Problems) == 0 {
		t.Errorf("%s is not served and nothing says why", v.Key)
	}
	for _, b := range v.Backends {
		if b.Usable != (len(b.Problems) == 0) || b.Usable != (b.ID != "") {
			t.Errorf("the verdict on a backend contradicts itself: %+v", b)
		}
		for _, p := range b.Problems {
			if !slices.Contains(v.Problems, p) {
				t.Errorf("the route does not know the problem %+v of its backend", p)
			}
		}
	}
	for _, p := range v.Problems {
		if p.Condition != v1alpha1.ConditionAccepted && p.Condition != v1alpha1.ConditionResolvedRefs || p.Reason == "" || p.Message == "" {
			t.Errorf("half a problem: %+v", p)
		}
	}
}
