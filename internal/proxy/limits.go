package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
)

// lastLook is what a limit that has passed leaves for what came just before it, or while a slow caller was written to.
const lastLook = time.Millisecond

// errGivenUp ends the wait of an attempt whose verdict says why.
var errGivenUp = errors.New("the attempt was given up")

var _ waiter = (*attempt)(nil)

// limits are what bounds an attempt, beside the request's whole time.
type limits struct {
	slow    time.Duration // longest wait for the first token; 0 is none
	share   time.Duration // what the attempt may use of the budget; 0 is all
	settled bool          // the status has told that there is no token to wait for: only the request's whole time is left

	reserve time.Time // when the time begins that is kept for further backends; zero where there is none

	next   time.Time // when wake is due
	looked time.Time // the limit that has passed and left a last look
}

// bound settles how long the attempt may go without its first token, and without an answer where it does not stream.
func (a *attempt) bound(others int) {
	l, s := &a.limits, &a.backend.Saturation
	l.slow = s.SlowAfter
	if !a.x.stream {
		l.slow = s.NonStreamingSlowAfter
	}
	if l.slow > 0 && s.SlowAfterPerKilotoken > 0 {
		l.slow += time.Duration(float64(s.SlowAfterPerKilotoken) * float64(a.x.promptSize().tokens) / 1000)
	}
	a.permit.Expect(l.slow)
	l.share = a.x.budget.share(a.began, others)
	if others > 0 {
		l.reserve = after(a.began, l.share)
	}
	a.rearm()
}

// shorter returns the shorter of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// after returns the end of a limit that began at a time; never where the limit is 0.
func after(began time.Time, limit time.Duration) time.Time {
	if limit == 0 {
		return time.Time{}
	}
	return began.Add(limit)
}

// limit is when the attempt ends if nothing comes until then.
func (a *attempt) limit() time.Time {
	l, ends := &a.limits, a.x.budget.ends
	switch {
	case a.committed():
		return earlier(ends, after(a.heard, a.x.route.Timeouts.Idle))
	case l.settled:
		return ends
	}
	return earlier(ends, after(a.began, shorter(l.slow, l.share)))
}

// rearm settles when wake is due. Limits that only move on, as with each chunk, need no rearming: wake looks again.
func (a *attempt) rearm() { a.limits.next = earlier(a.x.caller.due(), a.limit()) }

func (a *attempt) context() context.Context { return a.x.r.Context() }
func (a *attempt) due() time.Time           { return a.limits.next }

// wake sends the heartbeat that is due, and gives the attempt up where the caller left or a limit has passed.
func (a *attempt) wake(now time.Time) error {
	if a.x.r.Context().Err() != nil {
		return a.giveUp(Outcome{Class: Cancelled, Cause: "the caller went away"})
	}
	a.x.caller.beat(now)
	if a.x.caller.err != nil {
		return a.giveUp(stuck())
	}
	a.rearm()
	limit := a.limit()
	if limit.IsZero() || now.Before(limit) {
		return nil
	}
	if !a.limits.looked.Equal(limit) {
		a.limits.looked = limit
		a.limits.next = now.Add(lastLook)
		return nil
	}
	return a.giveUp(a.expired(now))
}

func stuck() Outcome {
	return Outcome{Class: Cancelled, Cause: "the caller does not take what is sent"}
}

func (a *attempt) giveUp(o Outcome) error {
	a.verdict = &o
	return errGivenUp
}

// expired says which limit has passed.
func (a *attempt) expired(now time.Time) Outcome {
	l, waited := &a.limits, now.Sub(a.began)
	switch {
	case a.committed():
		return a.expiredStream(now)
	case !l.settled && l.slow > 0 && waited >= l.slow:
		return Outcome{Class: Saturated, Slow: l.slow, Cause: "no first token within " + l.slow.Round(time.Millisecond).String()}
	case a.x.budget.spent(now):
		return Outcome{Class: Deadline, Cause: "the request's time is over"}
	}
	return Outcome{Class: OutOfShare, Cause: "no first token within its share of the request's time"}
}

// expiredStream is expired for an answer that the caller is reading.
func (a *attempt) expiredStream(now time.Time) Outcome {
	switch {
	case a.progress.Whole():
		return a.complete() // all that is missing is its [DONE]
	case a.x.budget.spent(now):
		return Outcome{Class: Deadline, Cause: "the request's time is over, within the answer"}
	}
	return Outcome{Class: Broken, Code: openai.CodeStreamIdle, Cause: "silent for " + a.x.route.Timeouts.Idle.String() + " within the answer"}
}
