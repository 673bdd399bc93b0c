package fleet

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// tables brings the published shards into the store.
type tables struct {
	store   *table.Store
	metrics *telemetry.Table
	clock   clock.WithTicker
	log     *slog.Logger
	changed func() // called when another revision is being served
}

// run watches all shards until ctx ends.
func (t *tables) run(ctx context.Context, c *client, namespace string) {
	var watches sync.WaitGroup
	refused := &refusals{what: "table shards", log: t.log}
	for index := range table.Shards {
		name := table.ShardName(index)
		src := &source{
			client: c.core, params: c.params, resource: "secrets",
			namespace: namespace, name: name, clock: t.clock, refusals: refused, outages: c.gate.ended,
		}
		sink := &shardSink{tables: t, index: index, name: name}
		watches.Go(func() { src.run(ctx, &corev1.Secret{}, sink) })
	}
	watches.Wait()
}

// shardSink is the end of one shard's watch. The reflector calls it from one goroutine.
type shardSink struct {
	tables *tables
	index  int
	name   string
	exists bool
}

// Add implements cache.ReflectorStore.
func (s *shardSink) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore. It never fails: a shard that cannot be used must not end the watch.
func (s *shardSink) Update(obj any) error {
	if secret, ok := obj.(*corev1.Secret); ok {
		s.exists = true
		s.tables.apply(s.index, secret.Data[table.ShardKey])
	}
	return nil
}

// Delete implements cache.ReflectorStore. A deleted shard is not an empty one.
func (s *shardSink) Delete(any) error {
	s.exists = false
	s.tables.log.Warn("a table shard was deleted; its last content is served on", "shard", s.name)
	return nil
}

// Replace implements cache.ReflectorStore: the whole truth after a list.
func (s *shardSink) Replace(objs []any, _ string) error {
	if len(objs) == 0 && s.exists {
		return s.Delete(nil)
	}
	for _, obj := range objs {
		_ = s.Update(obj)
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *shardSink) Resync() error { return nil }

// apply makes a shard live. One that is damaged or of an unknown schema changes nothing: the last good one is served on, and
// the report goes on naming its revision, by which the manager knows.
func (t *tables) apply(index int, data []byte) {
	began := t.clock.Now()
	name := table.ShardName(index)
	shard, revision, err := table.Decode(data, t.store.Shard(index))
	if err != nil {
		t.metrics.Reload(telemetry.ReloadRefused)
		reason := "damaged"
		if errors.Is(err, table.ErrSchema) {
			reason = "unknown schema: is the manager newer than this proxy?"
		}
		t.log.Error("a table shard is not used; the last good one is served on", "shard", name, "reason", reason, "error", err.Error())
		return
	}
	if !t.store.SetShard(index, shard, revision) {
		t.metrics.Reload(telemetry.ReloadUnchanged)
		return
	}
	t.metrics.Reload(telemetry.ReloadApplied)
	t.metrics.Applied(t.clock.Since(began))
	t.metrics.Serving(name, revision)
	t.log.Debug("table shard is live", "shard", name, "revision", string(revision), "routes", len(shard.Routes))
	t.changed()
}
