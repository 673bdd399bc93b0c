package stream

import "time"

// timer measures silence; without a bound it never fires.
type timer struct {
	t    *time.Timer
	idle time.Duration
}

func newTimer(idle time.Duration) *timer {
	if idle <= 0 {
		return &timer{}
	}
	return &timer{t: time.NewTimer(idle), idle: idle}
}

// C fires when nothing re-armed the timer for the idle time.
func (t *timer) C() <-chan time.Time {
	if t.t == nil {
		return nil
	}
	return t.t.C
}

// Rearm starts the idle time anew.
func (t *timer) Rearm() {
	if t.t != nil {
		t.t.Reset(t.idle)
	}
}

// Stop releases the timer.
func (t *timer) Stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
