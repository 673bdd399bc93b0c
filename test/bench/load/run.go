package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// failurePause keeps a generator from spinning on something that refuses every request.
	failurePause = 5 * time.Millisecond
	// stragglers is how long an open run waits for answers after its last request; then they are errors.
	stragglers = 15 * time.Second
)

// Run is how to send requests. Whatever is sent in Warmup is not counted; around the rest, Measure is called and its
// result is called at the end.
type Run struct {
	Conns            int     // connections, which is how many requests are out at most
	Rate             float64 // requests per second; Open only
	Warmup, Duration time.Duration
	Measure          func() (stop func())
}

// Closed sends the next request on a connection when the last is answered. It tells how many are answered; its latencies
// leave out what a stalled server kept from being sent, so use Open for those.
func Closed(ctx context.Context, r *Request, run Run) *Tally {
	var tally Tally
	var counting atomic.Bool
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for range run.Conns {
		workers.Go(func() { closedWorker(ctx, r, &tally, &counting) })
	}
	sleep(ctx, run.Warmup)
	stop := run.Measure()
	counting.Store(true)
	sleep(ctx, run.Duration)
	counting.Store(false)
	stop()
	cancel()
	workers.Wait()
	return &tally
}

func closedWorker(ctx context.Context, r *Request, tally *Tally, counting *atomic.Bool) {
	c := newConn(r.addr)
	defer c.close()
	for ctx.Err() == nil {
		counted, began := counting.Load(), time.Now()
		a, err := c.do(r, nil)
		if counted && counting.Load() {
			tally.add(r, &a, err, began)
		}
		if err != nil {
			sleep(ctx, failurePause)
		}
	}
}

// job is a request that is due.
type job struct {
	due     time.Time
	counted bool
}

// Open sends requests at a fixed rate, whatever becomes of the earlier ones. Every duration counts from when a request
// was due, so a queue before a stalled server is part of it, and a request without an answer is an error.
func Open(ctx context.Context, r *Request, run Run) *Tally {
	var tally Tally
	total := int(run.Rate * (run.Warmup + run.Duration).Seconds())
	jobs := make(chan job, total)
	var waiting atomic.Int64
	var workers sync.WaitGroup
	conns := make([]*conn, run.Conns)
	for i := range conns {
		conns[i] = newConn(r.addr)
		workers.Go(func() {
			defer conns[i].close()
			for j := range jobs {
				a, err := conns[i].do(r, nil)
				waiting.Add(-1)
				if j.counted {
					tally.add(r, &a, err, j.due)
				}
			}
		})
	}
	stop := run.pace(ctx, total, func(j job) {
		waiting.Add(1)
		jobs <- j
	})
	stop()
	close(jobs)
	for began := time.Now(); waiting.Load() > 0 && time.Since(began) < stragglers && ctx.Err() == nil; {
		sleep(ctx, 10*time.Millisecond)
	}
	if waiting.Load() > 0 {
		tally.fail("no answer in time")
		return &tally // the workers end with the connections, which their servers' end closes
	}
	workers.Wait()
	return &tally
}

// pace emits jobs when they are due and returns what ends the measurement.
func (run *Run) pace(ctx context.Context, total int, emit func(job)) (stop func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	stop = func() {}
	measuring := false
	for i := range total {
		at := time.Duration(float64(i) / run.Rate * float64(time.Second))
		if ctx.Err() != nil {
			break
		}
		waitUntil(began.Add(at))
		counted := at >= run.Warmup
		if counted && !measuring {
			measuring, stop = true, run.Measure()
		}
		emit(job{due: began.Add(at), counted: counted})
	}
	return stop
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
