package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/test/stack"
)

const (
	// What proxies do with their reports: see internal/fleet.
	renewEvery = 15 * time.Second
	writeEvery = time.Second
	gatherFor  = 50 * time.Millisecond
	spreadOver = writeEvery - gatherFor // a fleet of 200
)

// fleet is proxies as far as their reports go: each follows the table and says so as a real one would, at most once a second,
// and renews its report. They do not watch each other.
type fleet struct {
	api client.WithWatch
	end context.CancelFunc
	run sync.WaitGroup

	mu       sync.Mutex
	tables   [table.Shards]string
	breakers []v1alpha1.BreakerReport // as they were at said
	said     time.Time
	changes  int           // in tables and breakers
	latest   time.Time     // when the last of them came
	changed  chan struct{} // closed and made anew with each of them
	reported map[int]int   // the changes that a proxy's report has, by proxy
	failed   error
}

func startFleet(ctx context.Context, api client.WithWatch, n int) *fleet {
	ctx, cancel := context.WithCancel(ctx)
	f := &fleet{api: api, end: cancel, changed: make(chan struct{}), reported: map[int]int{}}
	f.run.Go(func() { follow(ctx, api, &corev1.SecretList{}, f.read, client.InNamespace(stack.Namespace)) })
	for i := range n {
		f.run.Go(func() { f.fail(f.proxy(ctx, i, float64(i)/float64(n))) })
	}
	return f
}

func (f *fleet) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

// stop ends the proxies as a crash does: the reports stay.
func (f *fleet) stop() {
	f.end()
	f.run.Wait()
}

// read takes note of a shard's revision.
func (f *fleet) read(s *corev1.Secret) {
	index, ok := table.ShardIndex(s.Name)
	if !ok {
		return
	}
	zr, err := gzip.NewReader(bytes.NewReader(s.Data[table.ShardKey]))
	if err != nil {
		f.fail(err)
		return
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, zr); err != nil {
		f.fail(err)
		return
	}
	revision := hex.EncodeToString(sum.Sum(nil))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables[index] != revision {
		f.tables[index] = revision
		f.change()
	}
}

func (f *fleet) change() {
	f.changes++
	f.latest = time.Now()
	close(f.changed)
	f.changed = make(chan struct{})
}

// say has all proxies report breakers.
func (f *fleet) say(breakers []v1alpha1.BreakerReport) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.breakers, f.said = breakers, time.Now()
	f.change()
}

// count is how many changes there have been.
func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// changedAt is when the last change came.
func (f *fleet) changedAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// caughtUp waits until there was a change after so many, and the reports of all proxies have every change.
func (f *fleet) caughtUp(ctx context.Context, after int) error {
	done := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, n := range f.reported {
			if n < f.changes {
				return false
			}
		}
		return f.changes > after
	}
	for !done() {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// wrote notes what the report of a proxy has.
func (f *fleet) wrote(i, changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported[i] = changes
}

// status is what a proxy reports now, how many changes are in it, and what tells of the next.
func (f *fleet) status(pod string) (v1alpha1.ProxyReportStatus, int, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	s := v1alpha1.ProxyReportStatus{Pod: pod, Schema: v1alpha1.ReportSchema, Ready: true, RenewTime: metav1.NewMicroTime(now)}
	for _, b := range f.breakers { // whose remaining time passes
		if left, err := b.Remaining.Parse(); err == nil {
			b.Remaining = v1alpha1.FormatDuration(left - now.Sub(f.said).Truncate(time.Millisecond))
		}
		s.Breakers = append(s.Breakers, b)
	}
	for i, revision := range f.tables {
		if revision != "" {
			s.Tables = append(s.Tables, v1alpha1.TableRevision{Shard: int32(i), Revision: revision})
		}
	}
	return s, f.changes, f.changed
}

// proxy writes one report until ctx ends. place is where among the others it stands, from 0 to 1.
func (f *fleet) proxy(ctx context.Context, i int, place float64) error {
	report := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Namespace: stack.Namespace, Name: fmt.Sprintf("simulated-%03d", i)}}
	next := time.Duration(place * float64(renewEvery))
	gather := gatherFor + time.Duration(place*float64(spreadOver))
	write := func(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
		return f.api.Create(ctx, o)
	}
	for {
		status, changes, changed := f.status(report.Name)
		report.Status = status
		err := write(ctx, report)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("report %s: %w", report.Name, err)
		}
		f.wrote(i, changes)
		write = f.api.Update
		wrote := time.Now()
		timer := time.NewTimer(next)
		next = renewEvery
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
			err = pause(ctx, max(gather, writeEvery-time.Since(wrote)))
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		if err != nil {
			return nil
		}
	}
}

// addFleet lets the simulated proxies come and waits until status knows them all.
func (b *bench) addFleet(ctx context.Context) error {
	b.fleet = startFleet(ctx, b.api, b.reports)
	all := fmt.Sprintf("%[1]d/%[1]d", b.reports+len(b.stack.Proxies))
	err := b.routes.await(ctx, b.options.routes, func(r *v1alpha1.LLMRoute) bool { return r.Status.Proxies == all && isReady(r) })
	if err != nil {
		return err
	}
	return b.settled(ctx)
}
