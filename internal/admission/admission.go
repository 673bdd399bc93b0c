package admission

import (
	"context"
	"errors"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// Errors of Acquire. When ctx ends, its error is returned as it is.
var (
	// ErrQueueFull: the backend's queue holds as many callers as it may.
	ErrQueueFull = errors.New("queue is full")
	// ErrMaxWait: the longest wait is over; spill to the next backend.
	ErrMaxWait = errors.New("waited as long as the queue allows")
	// ErrOpened: the backend's breaker opened while waiting; go on to the next backend.
	ErrOpened = errors.New("the backend's breaker opened")
)

// Clock tells monotonic time, since an arbitrary fixed instant.
type Clock interface {
	Monotonic() time.Duration
}

// Options of an Admission.
type Options struct {
	// Clock defaults to the machine's.
	Clock Clock
}

// Admission holds the buckets and slots of one proxy. It is safe for concurrent use.
type Admission struct{}

// New returns an Admission for a fleet of one.
func New(o Options) *Admission { return &Admission{} }

// SetLive sets the number of live proxies that share the declared limits; less than 1 counts as 1.
func (a *Admission) SetLive(n int) {}

// Apply takes a new table: buckets and slots that it names are kept, with what they hold, under the new limits; others
// go when their last user has left. It is made to be passed to table.Store.OnSwap.
func (a *Admission) Apply(t *table.Table) {}

// Decision is the answer of a rate limit.
type Decision struct {
	OK bool
	// Limited is false for a route without a rate limit; all that follows is then zero.
	Limited bool
	// Limit is the burst, Remaining the whole requests left in it.
	Limit, Remaining int
	// Reset is the time until the bucket is full again.
	Reset time.Duration
	// RetryAfter is set when not OK: whole seconds, at least one.
	RetryAfter time.Duration
}

// Allow takes one token of the route's bucket.
func (a *Admission) Allow(route *table.Route) Decision { return Decision{OK: true} }

// Wait says how to wait for a slot.
type Wait struct {
	// Length bounds the callers that wait for this backend, this one included.
	Length int
	// MaxWait bounds the wait; 0 waits on, for the last backend that is left.
	MaxWait time.Duration
	// Position is told the place in the queue, from 1, when waiting starts and each time it changes. It is called on the
	// goroutine of Acquire. Nil: not told.
	Position func(position int)
	// Opened ends the wait with ErrOpened when it is closed. Nil: never.
	Opened <-chan struct{}
}

// Acquire takes one of this proxy's slots at a backend, waiting in order of arrival. A backend without maxInFlight has
// no bound. On success release must be called once the attempt has ended; further calls do nothing.
func (a *Admission) Acquire(ctx context.Context, backend *table.Backend, w Wait) (release func(), err error) {
	return func() {}, nil
}

// Waiting is the number of callers that wait for the backend.
func (a *Admission) Waiting(id table.BackendID) int { return 0 }
