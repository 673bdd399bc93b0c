package proxy

import (
	"context"
	"time"
)

// waiter is who waits for a backend, on one goroutine of its own: an attempt, which has heartbeats to write and limits to
// keep meanwhile, or a probe. Whatever waits on its behalf (a read, a write, a dial) wakes it when it asks for that, and
// goes on waiting unless wake says no. So nobody but the waiter ever writes to a caller, and none waits for one thing
// while another could pass.
type waiter interface {
	// context is the caller's. Its end wakes at once.
	context() context.Context
	// due is when wake has something to do; the zero time is never. It changes only within wake and between waits.
	due() time.Time
	// wake does what is due at now; it may come early. An error ends the wait and is what the read, the write or the dial
	// returns.
	wake(now time.Time) error
}

// noWaiter waits for what is read aside, once the caller has its answer.
type noWaiter struct{}

func (noWaiter) context() context.Context { return context.Background() }
func (noWaiter) due() time.Time           { return time.Time{} }
func (noWaiter) wake(time.Time) error     { return nil }

// await waits for what another goroutine sends, for things that no deadline reaches.
func await[T any](w waiter, from <-chan T) (v T, err error) {
	var alarm alarm
	defer alarm.stop()
	for {
		select {
		case v = <-from:
			return v, nil
		case <-alarm.at(w.due()):
		case <-w.context().Done():
		}
		if err := w.wake(time.Now()); err != nil {
			return v, err
		}
	}
}

// alarm is a timer for select. The zero value is ready.
type alarm struct{ timer *time.Timer }

// at returns a channel that fires at a time; nil, which never fires, for the zero time.
func (a *alarm) at(t time.Time) <-chan time.Time {
	switch {
	case t.IsZero():
		return nil
	case a.timer == nil:
		a.timer = time.NewTimer(time.Until(t))
	default:
		a.timer.Reset(time.Until(t))
	}
	return a.timer.C
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// earlier returns the earlier of two times, of which the zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
