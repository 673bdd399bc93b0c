package table

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 8, 13, 12, 0, 0, 0, time.UTC)

func TestBeats(t *testing.T) {
	cases := map[string]struct {
		a, b      Route
		wantABeat bool
	}{
		"a model within its own namespace beats an older claim from elsewhere": {
			a: Route{Namespace: "team", Name: "r", Model: "team/m", Created: noon.Add(time.Hour)},
			b: Route{Namespace: "other", Name: "r", Model: "team/m", Created: noon}, wantABeat: true,
		},
		"among equals the older keeps it": {
			a: Route{Namespace: "z", Name: "z", Model: "m", Created: noon},
			b: Route{Namespace: "a", Name: "a", Model: "m", Created: noon.Add(time.Second)}, wantABeat: true,
		},
		"files have no creation time: the earlier position keeps it": {
			a: Route{Namespace: "z", Name: "z", Model: "m", Order: 1},
			b: Route{Namespace: "a", Name: "a", Model: "m", Order: 2}, wantABeat: true,
		},
		"of the same age the smaller namespace/name keeps it": {
			a: Route{Namespace: "a", Name: "b", Model: "m", Created: noon},
			b: Route{Namespace: "a", Name: "a", Model: "m", Created: noon}, wantABeat: false,
		},
		"a namespace that only begins alike owns nothing": {
			a: Route{Namespace: "tea", Name: "r", Model: "team/m", Created: noon.Add(time.Hour)},
			b: Route{Namespace: "other", Name: "r", Model: "team/m", Created: noon}, wantABeat: false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.a.Beats(&tc.b); got != tc.wantABeat {
				t.Errorf("a beats b = %v, want %v", got, tc.wantABeat)
			}
			if got := tc.b.Beats(&tc.a); got == tc.wantABeat {
				t.Errorf("b beats a = %v as well: the rule must be strict", got)
			}
		})
	}
}

func TestTableServesTheBetterClaimInEitherOrder(t *testing.T) {
	old := &Route{Namespace: "a", Name: "old", Model: "m", Created: noon}
	young := &Route{Namespace: "a", Name: "young", Model: "m", Created: noon.Add(time.Minute)}
	for _, routes := range [][]*Route{{old, young}, {young, old}} {
		tbl := New(routes)
		if got := tbl.ByModel("m"); got != old {
			t.Errorf("model served by %s, want a/old", got.Key())
		}
		if tbl.ByKey("a/young") != young {
			t.Error("the losing route must stay reachable by its key")
		}
		if diff := cmp.Diff([]string{"m"}, tbl.Models()); diff != "" {
			t.Errorf("models (-want +got):\n%s", diff)
		}
	}
	if New(nil).ByModel("M") != nil || New([]*Route{old}).ByModel("M") != nil {
		t.Error("the match on a model must be exact")
	}
}

func TestPinIsActiveFromItsStartUntilJustBeforeItsEnd(t *testing.T) {
	p := Pin{StartsAt: noon, ExpiresAt: noon.Add(time.Hour)}
	for at, want := range map[time.Duration]bool{-1: false, 0: true, time.Hour - 1: true, time.Hour: false} {
		if got := p.ActiveAt(noon.Add(at)); got != want {
			t.Errorf("active at start%+v = %v, want %v", at, got, want)
		}
	}
}

func TestShardsRoundTrip(t *testing.T) {
	var routes []*Route
	for i := range 100 {
		routes = append(routes, &Route{
			Namespace: "ns", Name: fmt.Sprintf("r%03d", i), Model: fmt.Sprintf("m%d", i), Generation: int64(i), Created: noon,
			Chain: []Backend{{ID: "x", Name: "tower", Credential: &Credential{Header: "Authorization", Value: "Bearer k"}}},
			Pins:  []Pin{{Name: "p", Backend: "tower", Mode: PinPrefer, StartsAt: noon, ExpiresAt: noon.Add(time.Hour)}},
		})
	}
	want := New(routes)
	store := NewStore()
	var swaps int
	store.OnSwap(func(*Table) { swaps++ })
	for i, shard := range want.Split() {
		data, revision, err := shard.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, revisionAgain, _ := shard.Encode(nil)
		if !bytes.Equal(data, again) || revision != revisionAgain {
			t.Fatal("equal shards must give equal bytes")
		}
		got, gotRevision, err := Decode(data, nil)
		if err != nil || gotRevision != revision {
			t.Fatalf("decode: %v, revision %q, want %q", err, gotRevision, revision)
		}
		if store.Ready() || len(store.Load().Models()) != 0 {
			t.Fatal("a half-read table must not be served")
		}
		if !store.SetShard(i, got, gotRevision) || store.SetShard(i, got, gotRevision) {
			t.Fatal("a shard must change the store once")
		}
	}
	if !store.Ready() || swaps != 2 { // once on registration, once when the last shard came
		t.Fatalf("ready = %v after %d swaps", store.Ready(), swaps)
	}
	if diff := cmp.Diff(want.Routes(), store.Load().Routes()); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestAnEmptiedShardDropsItsRoutes(t *testing.T) {
	store := NewStore()
	for i, shard := range New([]*Route{{Namespace: "a", Name: "b", Model: "m"}}).Split() {
		store.SetShard(i, &shard, Revision(fmt.Sprint(i)))
	}
	store.SetShard(ShardOf("a/b"), &Shard{Schema: Schema}, "empty")
	if store.Load().ByModel("m") != nil {
		t.Error("the route must be gone")
	}
}

func TestDecodeRefusesWhatItCannotServe(t *testing.T) {
	zip := func(s string) []byte { return compress([]byte(s)) }
	cases := map[string]struct {
		data       []byte
		wantSchema bool
	}{
		"not gzip":                {data: []byte("{}")},
		"cut gzip":                {data: zip(`{"schema":1}`)[:12]},
		"not JSON":                {data: zip("hunter2")},
		"a later schema":          {data: zip(`{"schema":2,"routes":"another shape"}`), wantSchema: true},
		"a field of another type": {data: zip(`{"schema":1,"routes":[{"model":["hunter2"]}]}`)},
		"a number with the secret": {data: zip(
			`{"schema":1,"routes":[{"chain":[{"credential":{"value":31337}}]}]}`)},
		"a route that is null":            {data: zip(`{"schema":1,"routes":[null]}`)},
		"a line that is null":             {data: zip("{\"schema\":1,\"routes\":[\nnull\n]}\n")},
		"an empty line":                   {data: zip("{\"schema\":1,\"routes\":[\n{},\n\n]}\n")},
		"a line that is not JSON":         {data: zip("{\"schema\":1,\"routes\":[\nhunter2\n]}\n")},
		"a line with the secret":          {data: zip("{\"schema\":1,\"routes\":[\n{\"model\":31337}\n]}\n")},
		"lines of a schema that is later": {data: zip("{\"schema\":2,\"routes\":[\n{}\n]}\n"), wantSchema: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := Decode(tc.data, nil)
			if err == nil {
				t.Fatal("want an error")
			}
			if errors.Is(err, ErrSchema) != tc.wantSchema {
				t.Errorf("error %q: is ErrSchema = %v, want %v", err, !tc.wantSchema, tc.wantSchema)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "31337") {
				t.Errorf("error %q quotes the content", err)
			}
		})
	}
}

// An edit leaves the other routes of its shard as they are, in what is written and in what is read.
func TestAShardAfterAnother(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	written, read := &Shard{Schema: Schema}, (*Shard)(nil)
	for step := range 300 {
		next := &Shard{Schema: Schema, Routes: New(editSome(random, written.Routes)).Routes()}
		data, revision, err := next.Encode(written)
		fresh := &Shard{Schema: Schema, Routes: next.Routes}
		if anew, anewRevision, anewErr := fresh.Encode(nil); err != nil || anewErr != nil || !bytes.Equal(data, anew) || revision != anewRevision {
			t.Fatalf("step %d: what is written after another shard differs from what is written anew (%v, %v)", step, err, anewErr)
		}
		got, _, err := Decode(data, read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next.Routes, got.Routes); diff != "" {
			t.Fatalf("step %d: what is read after another shard (-want +got):\n%s", step, diff)
		}
		if read != nil {
			gone, come := differing(written.Routes, next.Routes)
			readGone, readCome := differing(read.Routes, got.Routes)
			if len(readGone) > len(gone) || len(readCome) > len(come) { // fewer: one was made again as it was
				t.Fatalf("step %d: %d routes are gone and %d are new where they are read, want %d and %d", step, len(readGone), len(readCome), len(gone), len(come))
			}
		}
		written, read = next, got
	}
}

// editSome adds, edits, keeps and takes away routes.
func editSome(random *rand.Rand, routes []*Route) []*Route {
	var edited []*Route
	for _, r := range routes {
		switch random.IntN(20) {
		case 0:
			continue
		case 1:
			other := *r
			other.Generation++
			r = &other
		}
		edited = append(edited, r)
	}
	for range random.IntN(3) {
		edited = append(edited, &Route{Namespace: "ns", Name: fmt.Sprint(random.IntN(100)), Model: "a\nb,\n\u2028"})
	}
	return edited
}

// What a manager of an earlier release wrote is one line.
func TestAShardInOneLineIsRead(t *testing.T) {
	want := []*Route{{Namespace: "a", Name: "b", Model: "m"}, {Namespace: "a", Name: "c", Model: "n"}}
	plain, err := json.Marshal(Shard{Schema: Schema, Routes: want})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Decode(compress(plain), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func compress(plain []byte) []byte {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write(plain) // a Buffer takes all
	_ = zw.Close()
	return b.Bytes()
}

func TestShardNames(t *testing.T) {
	for i := range Shards {
		if got, ok := ShardIndex(ShardName(i)); !ok || got != i {
			t.Errorf("ShardIndex(%q) = %d, %v", ShardName(i), got, ok)
		}
	}
	for _, name := range []string{"spillway-table-32", "spillway-table-1", "spillway-table-+1", "other"} {
		if _, ok := ShardIndex(name); ok {
			t.Errorf("ShardIndex(%q) must not be ok", name)
		}
	}
}

func BenchmarkByModel(b *testing.B) {
	var routes []*Route
	for i := range 10_000 {
		routes = append(routes, &Route{Namespace: "ns", Name: fmt.Sprint(i), Model: fmt.Sprintf("ns/%d", i)})
	}
	store := NewStore()
	store.Set(New(routes))
	b.ReportAllocs()
	for b.Loop() {
		if store.Load().ByModel("ns/5000") == nil {
			b.Fatal("missing")
		}
	}
}

// What follows tables is in place before a request can meet the new one, and the first table is live before the store is
// ready: else the first evidence on a new backend would count nowhere, and known models be answered with 404.
func TestFollowersComeBeforeTheTableAndReadinessAfter(t *testing.T) {
	store := NewStore()
	next := New([]*Route{{Namespace: "a", Name: "b", Model: "m"}})
	var order []string
	note := func(who string) func(*Table) {
		return func(given *Table) {
			order = append(order, fmt.Sprintf("%s: given %d, live %d, ready %v", who, len(given.Routes()), len(store.Load().Routes()), store.Ready()))
		}
	}
	store.OnSwap(note("swapped"))
	store.Prepare(note("prepare"))
	store.Set(next)
	want := []string{
		"swapped: given 0, live 0, ready false", "prepare: given 0, live 0, ready false",
		"prepare: given 1, live 0, ready false", "swapped: given 1, live 1, ready true",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However shards come, whatever is in them, the table is that of all their routes.
func TestShardsOneByOneAreTheSameTable(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	route := func() *Route {
		namespaces := []string{"a", "a-b", "a.b", "ab", "b"}
		return &Route{Namespace: namespaces[random.IntN(len(namespaces))], Name: fmt.Sprint(random.IntN(200)), Model: fmt.Sprint(random.IntN(300)), Generation: random.Int64()}
	}
	store := NewStore()
	var shards [Shards]*Shard
	for i := range shards {
		shards[i] = &Shard{Schema: Schema}
		store.SetShard(i, shards[i], "empty")
	}
	for step := range 500 {
		var routes []*Route
		for range random.IntN(20) {
			routes = append(routes, route())
		}
		// Of the same shard, as a manager would have it, or not.
		index := random.IntN(Shards)
		if random.IntN(10) > 0 {
			routes = slices.DeleteFunc(routes, func(r *Route) bool { return ShardOf(r.Key()) != index })
			routes = New(append(routes, shards[index].Routes[:len(shards[index].Routes)/2]...)).Routes()
		}
		shards[index] = &Shard{Schema: Schema, Routes: routes}
		store.SetShard(index, shards[index], Revision(fmt.Sprint(step)))
		var all []*Route
		for _, s := range shards {
			all = append(all, s.Routes...)
		}
		got, want := store.Load(), New(all)
		if !slices.Equal(got.Routes(), want.Routes()) || !slices.Equal(got.Models(), want.Models()) {
			t.Fatalf("step %d: %d routes and %d models, want %d and %d", step, len(got.Routes()), len(got.Models()), len(want.Routes()), len(want.Models()))
		}
		for _, r := range want.Routes() {
			if got.ByKey(r.Key()) != r || got.ByModel(r.Model) != want.ByModel(r.Model) {
				t.Fatalf("step %d: %s is not as it should be", step, r.Key())
			}
		}
		if !slices.IsSortedFunc(got.Routes(), func(a, b *Route) int { return strings.Compare(a.Key(), b.Key()) }) {
			t.Fatalf("step %d: the routes are not sorted by key", step)
		}
	}
}

// BenchmarkOneEditOfAShard is what an edit of one of 312 routes costs: to encode their shard, and to read it and swap it in.
func BenchmarkOneEditOfAShard(b *testing.B) {
	var routes []*Route
	for i := range 10_000 {
		r := &Route{Namespace: "ns", Name: fmt.Sprint(i), Model: fmt.Sprintf("ns/%d", i), Created: noon}
		for n := range 3 {
			r.Chain = append(r.Chain, Backend{ID: BackendID(fmt.Sprintf("%032x", i)), Name: fmt.Sprintf("backend-%d", n), BaseURL: fmt.Sprintf("http://host-%d-%d/v1", i, n)})
		}
		routes = append(routes, r)
	}
	store := NewStore()
	shards := New(routes).Split()
	for i := range shards {
		store.SetShard(i, &shards[i], "first")
	}
	written, read := &shards[0], (*Shard)(nil)
	for i := 0; b.Loop(); i++ {
		edited := *written.Routes[7]
		edited.Generation++
		next := &Shard{Schema: Schema, Routes: slices.Clone(written.Routes)}
		next.Routes[7] = &edited
		data, _, err := next.Encode(written)
		if err != nil {
			b.Fatal(err)
		}
		got, revision, err := Decode(data, read)
		if err != nil || !store.SetShard(0, got, revision) {
			b.Fatal("nothing has changed", err)
		}
		written, read = next, got
	}
}
