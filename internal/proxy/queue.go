package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/table"
)

func isFull(err error) bool { return errors.Is(err, admission.ErrQueueFull) }

// enqueue takes one of the slots that this proxy has at the step's backend, waiting for it where the queue allows. On an
// error the request goes on to the next backend, unless it has ended.
func (x *exchange) enqueue(i int) (release func(), err error) {
	backend := x.plan.Steps[i].Backend
	ctx := x.r.Context()
	release, err = x.p.cfg.Admission.Acquire(ctx, backend, admission.Wait{})
	if !isFull(err) {
		return release, err
	}
	opened := x.p.cfg.Breakers.Opened(backend.ID, x.path(), x.mode())
	select {
	case <-opened:
		return nil, admission.ErrOpened // whoever would be turned away behind the queue is not told that it is full
	default:
	}
	share := x.budget.share(time.Now(), len(x.plan.Steps)-i-1) // waiting, too, leaves time for the rest
	wait := admission.Wait{Length: x.route.Queue.Length, Opened: opened,
		MaxWait: shorter(max(x.route.Queue.MaxWait, 1), share), // 0 is no wait in a route, and one without an end there
		Leave:   func() bool { return x.roomBehind(i) }}
	if x.budget.limited() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, x.budget.ends)
		defer cancel()
	}
	done := x.series.Backend(backend.Name).Waiting()
	defer done()
	began := time.Now()
	release, err = x.await(ctx, backend, wait)
	x.queued(backend, began, err)
	return release, err
}

// roomBehind says whether a backend behind step i would take the request, at once or into its queue. A place in a queue is
// not given up for none.
func (x *exchange) roomBehind(i int) bool {
	for _, step := range x.plan.Steps[i+1:] {
		b := step.Backend
		if x.tooSmall(b) || !x.p.cfg.Breakers.View(b.ID, x.path()).Usable {
			continue
		}
		if x.p.cfg.Admission.Room(b, x.route.Queue.Length) {
			return true
		}
	}
	return false
}

func (x *exchange) queued(backend *table.Backend, began time.Time, err error) {
	if isFull(err) {
		return // refused, not made to wait
	}
	now := time.Now()
	d := now.Sub(began)
	x.span.Queued(backend.Name, began, now, err == nil)
	x.log.Queued += d
	x.outside += d
	x.p.cfg.Metrics.QueueWait(d)
}

// slot is what Acquire returned.
type slot struct {
	release func()
	err     error
}

// await waits in the queue. A streaming caller is told its place meanwhile, so the waiting is a goroutine's and the
// writing stays here.
func (x *exchange) await(ctx context.Context, backend *table.Backend, wait admission.Wait) (func(), error) {
	if !x.stream {
		return x.p.cfg.Admission.Acquire(ctx, backend, wait)
	}
	ctx, cancel := context.WithCancel(ctx)
	places := make(chan int, 1)
	wait.Position = func(n int) { replace(places, n) }
	got := make(chan slot, 1)
	go func() {
		release, err := x.p.cfg.Admission.Acquire(ctx, backend, wait)
		got <- slot{release, err}
	}()
	received := false
	defer func() {
		cancel()
		if received {
			return
		}
		if late := <-got; late.err == nil {
			late.release()
		}
	}()
	var alarm alarm
	defer alarm.stop()
	for x.caller.err == nil {
		select {
		case n := <-places:
			x.caller.notify(stream.Heartbeat{State: stream.StateQueued, Backend: backend.Name, Position: n})
		case <-alarm.at(x.caller.due()):
			x.caller.beat(time.Now())
		case s := <-got:
			received = true
			return s.release, s.err
		}
	}
	return nil, x.caller.err
}

// replace puts n into a channel of one, in place of what nobody has taken yet. Only one goroutine may do so.
func replace(places chan int, n int) {
	select {
	case <-places:
	default:
	}
	places <- n
}
