package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// adoptionBound is how long a proxy that has its table waits for the reports of the others before it is ready without them,
// so that a missing permission cannot keep it out for ever.
const adoptionBound = 5 * time.Second

// Evidence is what this package needs of the breakers (breaker.Registry).
type Evidence interface {
	Records() []breaker.Record
	OnChange(func(urgent bool))
	Adopt(peer string, records []breaker.Record)
	Forget(peer string)
	SetPeers(live []string)
}

// Shares is told how many proxies share the declared limits (admission.Admission).
type Shares interface{ SetLive(n int) }

// Config of a Fleet. All but PodUID and Clock are required.
type Config struct {
	// REST is how to reach the API server. Its rate limits are not used.
	REST *rest.Config
	// Namespace holds the table Secrets and the reports: the proxy's own.
	Namespace string
	// Pod names the proxy and its report; PodUID, where known, makes the Pod the report's owner.
	Pod    string
	PodUID types.UID
	// Store gets the shards. Whoever keeps state per backend follows it by Prepare (as proxy.New does) before New is called,
	// so that evidence finds the backends in place.
	Store    *table.Store
	Breakers Evidence
	Shares   Shares
	Metrics  *telemetry.Table
	Clock    clock.WithTicker
	Log      *slog.Logger
}

// Fleet is one proxy's connection to the API server.
type Fleet struct {
	cfg    Config
	client *client
	tables *tables
	peers  *peers
	writer *writer

	tableReady chan struct{} // closed when the whole table has been read
	tableOnce  sync.Once
	swapped    chan struct{} // capacity 1: the table changed
	adopted    atomic.Bool
	draining   atomic.Bool
}

// New prepares the connection without using it. An error means that REST cannot be used at all.
func New(cfg Config) (*Fleet, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	c, err := newClient(cfg.REST, cfg.Clock, cfg.Log)
	if err != nil {
		return nil, err
	}
	f := &Fleet{cfg: cfg, client: c, tableReady: make(chan struct{}), swapped: make(chan struct{}, 1)}
	f.peers = newPeers(&f.cfg)
	f.writer = &writer{
		client: c.spillway, namespace: cfg.Namespace, pod: cfg.Pod, podUID: cfg.PodUID, clock: cfg.Clock, log: cfg.Log,
		status: f.status, fleet: f.peers.size, found: f.peers.ownReport,
		urgent: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	f.tables = &tables{store: cfg.Store, metrics: cfg.Metrics, clock: cfg.Clock, log: cfg.Log,
		changed: func() { f.writer.notify(false) }}
	cfg.Breakers.OnChange(f.writer.notify)
	cfg.Store.OnSwap(func(*table.Table) { f.onSwap() })
	return f, nil
}

// onSwap runs while the store is locked: it passes the word on and returns.
func (f *Fleet) onSwap() {
	if !f.cfg.Store.Ready() {
		return
	}
	f.tableOnce.Do(func() { close(f.tableReady) })
	select {
	case f.swapped <- struct{}{}:
	default:
	}
}

// Run connects and keeps connected until ctx ends; then it deletes the report and returns, within a few seconds also when
// the API server is gone. Call it once.
func (f *Fleet) Run(ctx context.Context) {
	defer f.client.close()
	f.peers.start()
	reportSource := &source{
		client: f.client.spillway, params: f.client.params, resource: reports, namespace: f.cfg.Namespace,
		clock: f.cfg.Clock, refusals: &refusals{what: "proxy reports", log: f.cfg.Log}, outages: f.client.gate.ended,
	}
	var running sync.WaitGroup
	running.Go(func() { f.tables.run(ctx, f.client, f.cfg.Namespace) })
	running.Go(func() { reportSource.run(ctx, &v1alpha1.ProxyReport{}, f.peers) })
	running.Go(func() { f.peers.run(ctx) })
	running.Go(func() { f.adopt(ctx) })
	running.Go(func() { f.report(ctx) })
	running.Wait()
	f.writer.delete()
}

// adopt takes over the evidence of all reports once the table is there, then the proxy is ready; and offers it again with
// each new table, which may name backends that the last one did not.
func (f *Fleet) adopt(ctx context.Context) {
	if !await(ctx, f.tableReady, nil) {
		return
	}
	bound := f.cfg.Clock.NewTimer(adoptionBound)
	defer bound.Stop()
	if !await(ctx, f.peers.synced, bound.C()) {
		return
	}
	if !isClosed(f.peers.synced) {
		f.cfg.Log.Warn("the reports of the other proxies could not be read in time; starting without their evidence",
			"waited", adoptionBound.String())
	}
	f.peers.adopt()
	f.adopted.Store(true)
	f.writer.notify(true)
	for await(ctx, f.swapped, nil) {
		f.peers.adopt()
	}
}

// report keeps the own report. It starts when the evidence of the last one is saved, or after a while without a table, so
// that a proxy that waits for one is seen.
func (f *Fleet) report(ctx context.Context) {
	bound := f.cfg.Clock.NewTimer(adoptionBound)
	defer bound.Stop()
	for _, step := range []<-chan struct{}{f.tableReady, f.peers.synced} {
		select {
		case <-step:
		case <-bound.C():
			f.writer.run(ctx)
			return
		case <-ctx.Done():
			return
		}
	}
	f.writer.run(ctx)
}

// await returns true when ch or bound (which may be nil) has something, false when ctx ended.
func await[T any](ctx context.Context, ch <-chan T, bound <-chan time.Time) bool {
	select {
	case <-ch:
		return true
	case <-bound:
		return true
	case <-ctx.Done():
		return false
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Drain reports at once that this proxy is about to go. It does not block; what else a drain means is not for here.
func (f *Fleet) Drain() {
	f.draining.Store(true)
	f.peers.drain()
	f.writer.notify(true)
}

// Ready returns nil when the table has been read and the evidence of the other proxies adopted, else what is missing.
func (f *Fleet) Ready() error {
	if !f.cfg.Store.Ready() {
		read := 0
		for _, revision := range f.cfg.Store.Revisions() {
			if revision != "" {
				read++
			}
		}
		return fmt.Errorf("waiting for the routing table: %d of %d shards read", read, table.Shards)
	}
	if !f.adopted.Load() {
		return errors.New("waiting for the reports of the other proxies")
	}
	return nil
}

// status is what the report says now.
func (f *Fleet) status() v1alpha1.ProxyReportStatus {
	return v1alpha1.ProxyReportStatus{
		Pod:         f.cfg.Pod,
		Schema:      v1alpha1.ReportSchema,
		TableSchema: table.Schema,
		Tables:      toTables(f.cfg.Store.Revisions()),
		Ready:       f.Ready() == nil,
		Draining:    f.draining.Load(),
		Breakers:    ToReports(f.cfg.Breakers.Records()),
	}
}
