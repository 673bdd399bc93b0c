package compiler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func noAuth(r *v1alpha1.LLMRoute) { r.Spec.Chain[0].Auth = nil }

// noise is text that does not compress, at most 128 KiB of header values of one backend each.
func noise(seed uint64, backends int) func(*v1alpha1.LLMRoute) {
	random := rand.New(rand.NewPCG(seed, 2))
	return func(r *v1alpha1.LLMRoute) {
		r.Spec.Chain = nil
		for n := range backends {
			b := v1alpha1.Backend{Name: fmt.Sprintf("b-%d", n), URL: "http://h/v1"}
			for i := range maxHeaders {
				b.Headers = append(b.Headers, v1alpha1.Header{Name: fmt.Sprintf("x-%d", i), Value: randomText(random, maxHeaderValue)})
			}
			r.Spec.Chain = append(r.Spec.Chain, b)
		}
	}
}

func randomText(random *rand.Rand, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('!' + random.IntN(94))
	}
	return string(text)
}

// namesInOneShard returns n names of routes of namespace "a" that fall into one shard.
func namesInOneShard(n int) []string {
	byShard := map[int][]string{}
	for i := 0; ; i++ {
		name := fmt.Sprintf("r-%d", i)
		shard := table.ShardOf("a/" + name)
		byShard[shard] = append(byShard[shard], name)
		if len(byShard[shard]) == n {
			return byShard[shard]
		}
	}
}

func TestShardsOfAnUnchangedTableAreTakenOver(t *testing.T) {
	first := Compile(snapshotOf(newRoute("one", noAuth), newRoute("two", noAuth)), goldenNow)
	published := first.Shards(nil)
	for i := range published {
		if decoded, revision, err := table.Decode(published[i].Data, nil); err != nil || revision != published[i].Revision {
			t.Fatalf("shard %d: %v, revision %s, decoded %v", i, err, revision, decoded)
		} else {
			published[i].Shard = decoded // as a manager that has just started
		}
	}
	again := Compile(snapshotOf(newRoute("one", noAuth), newRoute("two", noAuth)), goldenNow)
	next := again.Shards(published)
	for i := range next {
		if &next[i].Data[0] != &published[i].Data[0] {
			t.Errorf("shard %d was encoded again", i)
		}
	}
	if order := WriteOrder(published, next); len(order) != 0 {
		t.Errorf("shards %v are to be written, want none", order)
	}
	if order := WriteOrder(nil, next); len(order) != table.Shards {
		t.Errorf("%d shards are to be written where nothing is published, want all", len(order))
	}
}

// TestOverflow follows E9: the route that is too large is left out alone, and says so.
func TestOverflow(t *testing.T) {
	names := namesInOneShard(6)
	shard := table.ShardOf("a/" + names[0])
	small := func(name string) *v1alpha1.LLMRoute { return newRoute(name, noAuth) }
	large := func(seed uint64) *v1alpha1.LLMRoute { return newRoute(names[seed], noise(seed, 4)) }
	fitting := Compile(snapshotOf(large(0), large(1), large(2), small(names[3])), goldenNow)
	published := fitting.Shards(nil)

	grown := Compile(snapshotOf(large(0), large(1), large(2), newRoute(names[3], noise(3, 8)), small(names[4])), goldenNow)
	next := grown.Shards(published)
	var got []string
	for _, r := range next[shard].Shard.Routes {
		got = append(got, fmt.Sprintf("%s with %d backends", r.Name, len(r.Chain)))
	}
	want := []string{names[0] + " with 4 backends", names[1] + " with 4 backends", names[2] + " with 4 backends",
		names[3] + " with 1 backends", names[4] + " with 1 backends"}
	slices.Sort(want) // as the shard is: by key
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("published routes (-want +got):\n%s", diff)
	}
	if len(next[shard].Data) > table.MaxShardBytes {
		t.Errorf("the shard has %d bytes", len(next[shard].Data))
	}
	v := grown.Routes[key(names[3])]
	if v.Programmable || v.Accepted() || v.Problems[0].Reason != v1alpha1.ReasonTableFull ||
		!strings.Contains(v.Problems[0].Message, "last published version is served on") {
		t.Errorf("verdict on the route that grew: %+v", v.Problems)
	}
	if v := grown.Routes[key(names[4])]; !v.Programmable {
		t.Errorf("the small new route was left out: %+v", v.Problems)
	}

	fresh := Compile(snapshotOf(large(0), large(1), large(2), newRoute(names[3], noise(3, 8))), goldenNow)
	if set := fresh.Shards(nil); len(set[shard].Shard.Routes) != 3 {
		t.Errorf("%d routes fit, want 3", len(set[shard].Shard.Routes))
	}
	if v := fresh.Routes[key(names[3])]; !strings.Contains(v.Problems[0].Message, "it is not served") {
		t.Errorf("verdict on the new route: %+v", v.Problems)
	}
}

// TestTwoThousandRoutesFit follows E9: what is more than one Secret could hold is published whole.
func TestTwoThousandRoutesFit(t *testing.T) {
	const routes, backends = 2000, 5
	s := emptySnapshot()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range routes {
		route := newRoute(fmt.Sprintf("route-%04d", i))
		route.Spec.Chain = nil
		for n := range backends {
			name := fmt.Sprintf("key-%d-%d", i, n)
			s.add(newSecret(name, map[string]string{"token": randomText(random, 130)}))
			route.Spec.Chain = append(route.Spec.Chain, v1alpha1.Backend{
				Name: fmt.Sprintf("b-%d", n), URL: fmt.Sprintf("http://h-%d-%d/v1", i, n),
				Auth: &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: name, Key: "token"}},
			})
		}
		s.add(route)
	}
	compiled := Compile(s.Snapshot, goldenNow)
	size, published := 0, 0
	for i, shard := range compiled.Shards(nil) {
		if len(shard.Data) > table.MaxShardBytes {
			t.Errorf("shard %d has %d bytes", i, len(shard.Data))
		}
		size += len(shard.Data)
		for _, r := range shard.Shard.Routes {
			if len(r.Chain) == backends && compiled.Routes[key(r.Name)].Programmable {
				published++
			}
		}
	}
	if published != routes || size < 1<<20 {
		t.Errorf("%d routes are published whole, in %d bytes; want %d in more than a Secret may have", published, size, routes)
	}
}

func TestWriteOrder(t *testing.T) {
	set := func(models map[int]string) *ShardSet {
		s := &ShardSet{}
		for i := range s {
			s[i].Shard = &table.Shard{Schema: table.Schema}
			for _, model := range strings.Fields(models[i]) {
				s[i].Shard.Routes = append(s[i].Shard.Routes, &table.Route{Namespace: "a", Name: model, Model: model})
			}
			s[i].Revision = table.Revision(models[i])
		}
		return s
	}
	tests := map[string]struct {
		previous, next map[int]string
		want           []int
	}{
		"nothing changed":                         {map[int]string{1: "m"}, map[int]string{1: "m"}, nil},
		"the gaining shard goes first":            {map[int]string{1: "m"}, map[int]string{2: "m"}, []int{2, 1}},
		"also where it has the smaller index":     {map[int]string{2: "m"}, map[int]string{1: "m"}, []int{1, 2}},
		"a chain of moves":                        {map[int]string{1: "m", 2: "n"}, map[int]string{2: "m", 3: "n"}, []int{3, 2, 1}},
		"a circle begins with the smaller index":  {map[int]string{1: "m", 2: "n"}, map[int]string{2: "m", 1: "n"}, []int{1, 2}},
		"a model that is gone waits for nobody":   {map[int]string{1: "m", 2: "n"}, map[int]string{}, []int{1, 2}},
		"a new model beside one that moves":       {map[int]string{1: "m"}, map[int]string{0: "x", 5: "m"}, []int{0, 5, 1}},
		"a shard that both gains and loses, once": {map[int]string{4: "m n"}, map[int]string{4: "o", 3: "m", 5: "n"}, []int{3, 5, 4}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, WriteOrder(set(tc.previous), set(tc.next))); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEqualRouteSeesEveryField changes each field of an entry in turn, also those that the table gets later.
func TestEqualRouteSeesEveryField(t *testing.T) {
	full := func() *table.Route {
		return &table.Route{
			Chain: []table.Backend{{Credential: &table.Credential{}, TLS: &table.TLS{}, Headers: []table.Header{{}}}},
			Pins:  []table.Pin{{}},
		}
	}
	if !equalRoute(full(), full()) {
		t.Fatal("equal routes are not equal")
	}
	for n := 0; ; n++ {
		changed := full()
		left := n
		path := changeLeaf(reflect.ValueOf(changed).Elem(), "Route", &left)
		if path == "" {
			break
		}
		if equalRoute(full(), changed) {
			t.Errorf("a change of %s is not seen", path)
		}
	}
}

// changeLeaf changes the leaf that comes after skipping left others and returns its path.
func changeLeaf(v reflect.Value, path string, left *int) string {
	if v.Type() == reflect.TypeFor[time.Time]() || v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice {
		if *left > 0 {
			*left--
			return ""
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Struct:
			v.Set(reflect.ValueOf(goldenNow))
		default:
			v.SetInt(7)
		}
		return path
	}
	switch v.Kind() {
	case reflect.Pointer:
		return changeLeaf(v.Elem(), path, left)
	case reflect.Slice:
		return changeLeaf(v.Index(0), path+"[0]", left)
	}
	for i := range v.NumField() {
		if changed := changeLeaf(v.Field(i), path+"."+v.Type().Field(i).Name, left); changed != "" {
			return changed
		}
	}
	return ""
}
