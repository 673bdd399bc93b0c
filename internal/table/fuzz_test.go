package table

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzDecode reads what came from outside, after a shard that came from there too. Whatever is read can be served and written
// again, and reads the same line by line, as a whole, and after any other.
func FuzzDecode(f *testing.F) {
	lines := func(routes string) string { return string(linesHead) + routes + string(linesTail) }
	for _, plain := range []string{
		"", "{}", "null", `{"schema":1}`, `{"schema":1,"routes":[null]}`, `{"schema":2,"routes":[]}`, lines(""), lines("null"), lines("{}"), lines("{},\n{}"),
		lines("{\"name\":\"a\",\n\"model\":\"m\"}"), lines(`{"namespace":"a","name":"b","model":"m","chain":[{"id":"x","name":"tower"}]}`),
		lines(`{"namespace":"a/b","name":"c","model":"m"},` + "\n" + `{"namespace":"a","name":"b/c","model":"m"}`), lines("{}\n]}\n"), lines("{}],\"routes\":[{}"),
		lines(`{"name":"r","created":"9999-12-31T23:59:59-23:59","pins":[{"startsAt":"0000-01-01T00:00:00+23:59"}],"Name":"s"}`),
	} {
		f.Add([]byte(plain), []byte(lines("{},\n{\"name\":\"a\"}")))
		f.Add([]byte(lines("{},\n{\"name\":\"a\"}")), []byte(plain))
	}
	f.Fuzz(func(t *testing.T, plain, before []byte) {
		_, _, _ = Decode(plain, nil)
		known, _, _ := Decode(pack(before), nil)
		s, revision, err := Decode(pack(plain), known)
		whole, wholeErr := decodeWhole(plain)
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("as it is read: %v; as a whole: %v", err, wholeErr)
		}
		if err != nil {
			return
		}
		checkRead(t, "as a whole", whole, s)
		checkServed(t, s, known)
		again := &Shard{Schema: s.Schema, Routes: s.Routes}
		data, written, err := again.Encode(known)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		next, read, err := Decode(data, s)
		if err != nil || read != written {
			t.Fatalf("what was written is read as %q (%v), want %q; it was %q", read, err, written, revision)
		}
		checkRead(t, "as it was written", s, next)
	})
}

// pack is compress for very many.
func pack(plain []byte) []byte {
	var b bytes.Buffer
	zw := compressors.Get().(*gzip.Writer)
	defer compressors.Put(zw)
	zw.Reset(&b)
	_, _ = zw.Write(plain) // a Buffer takes all
	_ = zw.Close()
	return b.Bytes()
}

func checkRead(t *testing.T, how string, want, got *Shard) {
	t.Helper()
	if !cmp.Equal(want.Routes, got.Routes, cmpopts.EquateEmpty()) {
		t.Fatalf("%s (-want +got):\n%s", how, cmp.Diff(want.Routes, got.Routes, cmpopts.EquateEmpty()))
	}
}

// checkServed puts shards into a store in turns, beside one that never changes.
func checkServed(t *testing.T, a, b *Shard) {
	t.Helper()
	store := NewStore()
	for i := range Shards {
		store.SetShard(i, &Shard{Schema: Schema}, "empty")
	}
	other := &Shard{Schema: Schema, Routes: []*Route{{Namespace: "a", Name: "b", Model: "m"}}}
	store.SetShard(1, other, "other")
	for turn, s := range []*Shard{a, b, a, {Schema: Schema}, a} {
		if s == nil {
			continue
		}
		before := store.Load()
		store.SetShard(0, s, Revision(fmt.Sprint(turn)))
		now, want := store.Load(), New(append(s.Routes[:len(s.Routes):len(s.Routes)], other.Routes...))
		now.Changed(before)
		if len(now.Routes()) != len(want.Routes()) || !cmp.Equal(now.Models(), want.Models()) {
			t.Fatalf("%d routes and the models %q are served, want %d and %q", len(now.Routes()), now.Models(), len(want.Routes()), want.Models())
		}
		for _, r := range want.Routes() {
			if got := now.ByKey(r.Key()); got == nil || got.Key() != r.Key() {
				t.Fatalf("the route %q is not there by its key", r.Key())
			}
		}
		for _, model := range want.Models() {
			if got := now.ByModel(model); got == nil || got.Key() != want.ByModel(model).Key() {
				t.Fatalf("the model %q is served by another route", model)
			}
		}
	}
}
