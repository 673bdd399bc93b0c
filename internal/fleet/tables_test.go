package fleet

import (
	"bytes"
	"compress/gzip"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// secretOf is a published shard that holds one route for each model.
func secretOf(t *testing.T, models ...string) *corev1.Secret {
	t.Helper()
	shard := table.Shard{Schema: table.Schema, Routes: []*table.Route{}}
	for _, model := range models {
		shard.Routes = append(shard.Routes, &table.Route{Namespace: "ns", Name: model, Model: model})
	}
	data, _, err := shard.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{table.ShardKey: data}}
}

func zipped(t *testing.T, text string) *corev1.Secret {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{table.ShardKey: out.Bytes()}}
}

func TestShards(t *testing.T) {
	good := secretOf(t, "m")
	damaged := &corev1.Secret{Data: map[string][]byte{table.ShardKey: good.Data[table.ShardKey][:20]}}
	cases := map[string]struct {
		then        func(*shardSink)
		wantModels  []string
		wantChanges int
	}{
		"an update is live":                          {func(s *shardSink) { _ = s.Update(secretOf(t, "m", "n")) }, []string{"m", "n"}, 1},
		"an emptied shard is empty":                  {func(s *shardSink) { _ = s.Update(secretOf(t)) }, nil, 1},
		"the same again changes nothing":             {func(s *shardSink) { _ = s.Update(good) }, []string{"m"}, 0},
		"a deleted shard is not an empty one":        {func(s *shardSink) { _ = s.Delete(good) }, []string{"m"}, 0},
		"a deletion that was missed is none either":  {func(s *shardSink) { _ = s.Replace(nil, "") }, []string{"m"}, 0},
		"a damaged shard leaves the last good one":   {func(s *shardSink) { _ = s.Update(damaged) }, []string{"m"}, 0},
		"a Secret without the key does too":          {func(s *shardSink) { _ = s.Update(&corev1.Secret{}) }, []string{"m"}, 0},
		"so does one that is no JSON":                {func(s *shardSink) { _ = s.Update(zipped(t, "{")) }, []string{"m"}, 0},
		"so does one of an unknown schema":           {func(s *shardSink) { _ = s.Update(zipped(t, `{"schema":99,"routes":{}}`)) }, []string{"m"}, 0},
		"after a deletion a new one is live at once": {func(s *shardSink) { _ = s.Delete(good); _ = s.Add(secretOf(t, "n")) }, []string{"n"}, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes := 0
			tables := &tables{store: table.NewStore(), metrics: telemetry.NewTable(prometheus.NewRegistry()),
				clock: clock.RealClock{}, log: slog.New(slog.DiscardHandler), changed: func() { changes++ }}
			var first *shardSink
			for i := range table.Shards {
				sink := &shardSink{tables: tables, index: i, name: table.ShardName(i)}
				secret := secretOf(t)
				if i == 0 {
					first, secret = sink, good
				}
				if tables.store.Ready() {
					t.Fatalf("ready with %d shards read", i)
				}
				_ = sink.Replace([]any{secret}, "")
			}
			changes = 0
			tc.then(first)
			if diff := cmp.Diff(tc.wantModels, tables.store.Load().Models()); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if changes != tc.wantChanges {
				t.Errorf("%d changes told, want %d", changes, tc.wantChanges)
			}
		})
	}
}
