package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/bench/proc"
	"github.com/spillway-dev/spillway/test/stack"
)

// bench is one run.
type bench struct {
	options
	dir     string
	stack   *stack.Stack
	api     client.WithWatch // as the administrator
	backend *httptest.Server
	routes  *watched
	fleet   *fleet
	metrics string // address of the manager's
	audited int64  // how far settled has read the audit log

	began   time.Time
	busy    time.Duration
	results map[string]float64
	notes   []string
}

func newBench(ctx context.Context, o options) (_ *bench, err error) {
	b := &bench{options: o, began: time.Now(), busy: proc.Busy(), results: map[string]float64{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp("", "spillway-bench-control-"); err != nil {
		return nil, err
	}
	if b.metrics, err = stack.FreeAddr(); err != nil {
		return nil, err
	}
	root, err := stack.FindRoot()
	if err != nil {
		return nil, err
	}
	b.backend = httptest.NewServer(backend())
	b.stack, err = stack.Start(ctx, stack.Options{
		Root: root, Dir: b.dir, Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Audit: true, ManagerMetrics: b.metrics, Progress: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	config, err := b.stack.Config()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	b.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return b, err
}

// close ends all that was started.
func (b *bench) close() error {
	var errs []error
	if b.fleet != nil {
		b.fleet.stop()
	}
	if b.stack != nil {
		errs = append(errs, b.stack.Stop())
	}
	if b.backend != nil {
		b.backend.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}

// measure fills the table, in the order that no part disturbs the next.
func (b *bench) measure(ctx context.Context) error {
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"create the objects", b.create},
		{"add the fleet", b.addFleet},
		{"compile", b.compile},
		{"idle", b.watchIdle},
		{"edits", b.edit},
		{"openings", b.open},
		{"saturation burst", b.burst},
		{"memory", b.memory},
	} {
		began, busy, manager := time.Now(), proc.Busy(), proc.CPU(b.stack.Manager.PID())
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, errors.Join(err, context.Cause(ctx)))
		}
		fmt.Fprintf(os.Stderr, "bench-control: %-20s %6.1f s; CPU of the manager %5.1f s, of all %6.1f s\n", part.name, time.Since(began).Seconds(),
			(proc.CPU(b.stack.Manager.PID()) - manager).Seconds(), (proc.Busy() - busy).Seconds())
	}
	return nil
}

// note keeps a sentence for the reader of the table.
func (b *bench) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// settled waits until the manager writes nothing more.
func (b *bench) settled(ctx context.Context) error {
	const calm = 3 * time.Second
	for last := time.Now(); time.Since(last) < calm; {
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		writes, offset, err := b.stack.ReadAudit(b.audited)
		if err != nil {
			return err
		}
		b.audited = offset
		for i := range writes {
			if ofManager(&writes[i]) && writes[i].Resource != "leases" {
				last = time.Now()
			}
		}
	}
	return nil
}

func ofManager(w *stack.Write) bool {
	return w.User == "system:serviceaccount:"+stack.Namespace+":spillway-manager"
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
