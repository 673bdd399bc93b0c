package proxy

import (
	"errors"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
)

// dispatch goes along the plan until a backend settles the request: with an answer, which is then written, or with an
// error that no other backend can cure.
func dispatch(x *exchange) *failure {
	if x.stream {
		x.caller.listen(x.route.Heartbeat)
	}
	for i := range x.plan.Steps {
		if x.tooSmall(x.plan.Steps[i].Backend) {
			continue
		}
		if settled, f := x.step(i); settled {
			return f
		}
	}
	if x.r.Context().Err() != nil { // between two tries at the last one
		return x.gone()
	}
	return x.exhausted()
}

// step queues for one backend and tries it. settled says that no other backend is to be asked.
func (x *exchange) step(i int) (settled bool, f *failure) {
	backend := x.plan.Steps[i].Backend
	release, err := x.enqueue(i)
	if err == nil {
		defer release()
	}
	if f := x.overdue(); f != nil { // a slot may come with the last of the time
		return true, f
	}
	if err != nil {
		x.spill(err)
		return false, nil
	}
	outcome, asked := x.ask(i)
	if !asked {
		x.spill(admission.ErrOpened)
		return false, nil
	}
	if !outcome.next() {
		return true, x.settle(backend, &outcome)
	}
	x.next = rules[outcome.Class].reason
	failingOver := x.follows(i)
	if outcome.saturation() {
		x.span.Saturated(backend.Name, failingOver)
	}
	x.caller.notify(stream.Heartbeat{State: outcome.state(), Backend: backend.Name,
		FailingOver: failingOver, Code: string(outcome.attemptCode())})
	return false, nil
}

// follows says whether there is a backend for another attempt after step i.
func (x *exchange) follows(i int) bool {
	for _, step := range x.plan.Steps[i+1:] {
		if !x.tooSmall(step.Backend) {
			return true
		}
	}
	return false
}

// spill goes on to the next backend without an attempt at this one.
func (x *exchange) spill(why error) {
	x.next = string(plan.WhySpilled)
	if errors.Is(why, admission.ErrOpened) { // in the queue or at its end
		x.next = string(plan.WhyBreakerOpen)
	}
	x.queueFull = x.queueFull || isFull(why)
}

// ask tries one backend, again where retry.attempts allows it. asked is false when its breaker refuses.
func (x *exchange) ask(i int) (outcome Outcome, asked bool) {
	backend := x.plan.Steps[i].Backend
	for try := 0; ; try++ {
		permit, ok := x.p.cfg.Breakers.Admit(backend.ID, x.path(), x.mode())
		if !ok {
			return outcome, asked
		}
		if !asked {
			x.announce(i)
		}
		asked = true
		outcome = x.attempt(i, permit)
		if !outcome.retryable() || try >= x.route.Retry.Attempts || !x.pause(x.route.Retry.Backoff, len(x.plan.Steps)-i-1) {
			return outcome, true
		}
	}
}

// mode is how the request asks the breakers: as a last resort where they have left no other backend.
func (x *exchange) mode() breaker.Mode {
	if x.plan.AllOpen {
		return breaker.LastResort
	}
	return breaker.Normal
}

// announce tells a streaming caller which backend is tried now.
func (x *exchange) announce(i int) {
	backend := x.plan.Steps[i].Backend
	x.backend, x.reason = backend, x.next
	x.caller.notify(stream.Heartbeat{State: stream.StateAttempt, N: i + 1, Of: len(x.plan.Steps), Backend: backend.Name, Regime: backend.Regime})
}

// pause waits before another try at the same backend, unless that takes what is kept for others (further backends). It reports
// whether there is still somebody to try for.
func (x *exchange) pause(d time.Duration, others int) bool {
	if x.budget.limited() && d >= x.budget.free(time.Now(), others) {
		return false
	}
	x.outside += d
	ends := time.Now().Add(d)
	var alarm alarm
	defer alarm.stop()
	for x.caller.err == nil {
		select {
		case <-alarm.at(earlier(ends, x.caller.due())):
		case <-x.r.Context().Done():
			return false
		}
		now := time.Now()
		if !now.Before(ends) {
			return true
		}
		x.caller.beat(now)
	}
	return false
}

// overdue says whether the request has ended, whatever the backends do.
func (x *exchange) overdue() *failure {
	switch {
	case x.r.Context().Err() != nil || x.caller.err != nil:
		return x.gone()
	case x.budget.spent(time.Now()):
		return failed(x.deadlineError())
	}
	return nil
}

// tooSmall says whether a backend cannot hold a prompt that an equal or larger window has already proven too small for.
func (x *exchange) tooSmall(b *table.Backend) bool {
	if b.ContextWindow == 0 {
		return false
	}
	for i := range x.trail {
		t := &x.trail[i]
		if t.outcome.Class == TooLong && t.backend.ContextWindow >= b.ContextWindow {
			return true
		}
	}
	return false
}
