package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/test/bench/load"
	"github.com/spillway-dev/spillway/test/bench/proc"
)

const (
	heldStreams   = 2000
	crowdStreams  = 10_000
	spareFiles    = 500 // descriptors that a proxy needs beside two for each stream
	plateau       = 4 * time.Second
	healthy       = 3000
	healthySpread = 6 * time.Second
)

// held measures the memory of streams that are open at the same time.
func (b *bench) held(ctx context.Context) error {
	return b.each(ctx, b.arena.names(), func(p *process) error {
		grown, live, err := b.hold(ctx, p, logical(modelHeld), heldStreams)
		if err != nil {
			return err
		}
		b.add(keyHeld, p.name, float64(grown)/float64(live)/(1<<10))
		return nil
	})
}

// crowd holds as many streams in the proxy as the machine's limit of open files allows, up to 10,000.
func (b *bench) crowd(ctx context.Context) error {
	n := crowdStreams
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if most := (int(files.Max) - spareFiles) / 2; most < n {
		n = most
		b.note("Held were %d streams instead of %d: a process may open %d files here.", n, crowdStreams, files.Max)
	}
	return b.each(ctx, []string{ours}, func(p *process) error {
		before := proc.Memory(p.pid)
		grown, live, err := b.hold(ctx, p, logical(modelCrowd), n)
		if err != nil {
			return err
		}
		b.add(keyCrowd, p.name, (float64(before)+float64(grown)*crowdStreams/float64(live))/(1<<20))
		return nil
	})
}

// hold opens n streams and returns by how many bytes a process grew at most, and how many streams it held.
func (b *bench) hold(ctx context.Context, p *process, model string, n int) (grown int64, live int, err error) {
	before := proc.Memory(p.pid)
	request, err := load.NewRequest(p.addr, model, 1)
	if err != nil {
		return 0, 0, err
	}
	streams := load.Hold(ctx, request, n, time.Duration(n)*time.Millisecond)
	defer streams.Release()
	if streams.Failed > 0 {
		b.note("%s: %d of %d held streams failed.", p.name, streams.Failed, n)
	}
	if streams.Live == 0 {
		return 0, 0, fmt.Errorf("none of %d streams shows a token", n)
	}
	most := before
	for began := time.Now(); time.Since(began) < plateau; {
		most = max(most, proc.Memory(p.pid))
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return 0, 0, err
		}
	}
	return most - before, streams.Live, nil
}

// broken counts healthy streams that do not arrive whole.
func (b *bench) broken(ctx context.Context) error {
	return b.each(ctx, b.arena.names(), func(p *process) error {
		request, err := load.NewRequest(p.addr, logical(modelShort), 10)
		if err != nil {
			return err
		}
		var c cost
		t := load.Open(ctx, request, load.Run{Conns: 1000, Rate: healthy / healthySpread.Seconds(), Duration: healthySpread, Measure: b.watch(p.pid, &c)})
		b.noteErrors(p.name, t)
		b.add(keyBroken, p.name, float64(t.Failed()))
		return nil
	})
}

// pause returns the cause of ctx's end, if it ends before d has passed.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
