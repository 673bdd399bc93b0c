package admission

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
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

// Wait says how to wait for a slot.
type Wait struct {
	// Length bounds the callers that wait for this backend, this one included.
	Length int
	// MaxWait bounds the wait; 0 waits on, for the last backend that is left.
	MaxWait time.Duration
	// Leave is asked when MaxWait is over, and every second from then on: false waits on, in the same place. It is called on
	// the goroutine of Acquire. Nil: leave at once.
	Leave func() bool
	// Position is told the place in the queue, from 1, when waiting starts and each time it changes. It is called on the
	// goroutine of Acquire. Nil: not told.
	Position func(position int)
	// Opened ends the wait with ErrOpened when it is closed. Nil: never.
	Opened <-chan struct{}
}

func (w *Wait) leaves() bool { return w.Leave == nil || w.Leave() }

// askAgain is how often a caller that has waited long enough looks for another place.
const askAgain = time.Second

// slots are this proxy's share of one backend's maxInFlight. Guarded by Admission.mu.
type slots struct {
	maxInFlight int // of the fleet; 0 is unlimited
	inFlight    int
	waiting     []*waiter // in order of arrival
}

type waiter struct {
	granted  bool
	ready    chan struct{} // closed when granted; nil where there was nothing to wait for
	moved    chan struct{} // holds one: the position changed
	position int
}

// share is what one proxy may have in flight: more proxies than slots are one each, so that none is left out.
func (s *slots) share(live int) int {
	if s.maxInFlight == 0 {
		return math.MaxInt
	}
	return max(1, s.maxInFlight/live)
}

// grant gives free slots to those who have waited longest.
func (s *slots) grant(live int) {
	granted := 0
	for granted < len(s.waiting) && s.inFlight < s.share(live) {
		w := s.waiting[granted]
		w.granted = true
		close(w.ready)
		s.inFlight++
		granted++
	}
	if granted > 0 {
		s.waiting = slices.Delete(s.waiting, 0, granted)
		s.renumber()
	}
}

func (s *slots) renumber() {
	for i, w := range s.waiting {
		if w.position == i+1 {
			continue
		}
		w.position = i + 1
		select {
		case w.moved <- struct{}{}:
		default: // it is to look already
		}
	}
}

// Acquire takes one of this proxy's slots at a backend, waiting in order of arrival. A backend without maxInFlight has
// no bound. On success release must be called once the attempt has ended; further calls do nothing.
func (a *Admission) Acquire(ctx context.Context, backend *table.Backend, w Wait) (release func(), err error) {
	if backend.MaxInFlight <= 0 {
		return func() {}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, place := a.enter(backend, w.Length)
	switch {
	case s == nil:
		return func() {}, nil
	case place == nil:
		return nil, ErrQueueFull
	case place.ready != nil:
		if err := a.await(ctx, place, w); err != nil {
			a.leave(backend.ID, s, place)
			return nil, err
		}
	}
	return sync.OnceFunc(func() { a.release(backend.ID, s) }), nil
}

// enter takes a slot, or a place in the queue. Without slots the backend is unlimited; without a place its queue is full.
func (a *Admission) enter(backend *table.Backend, length int) (*slots, *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slots[backend.ID]
	if s == nil {
		bound, named := a.bounds[backend.ID]
		if !named {
			bound = backend.MaxInFlight // a request that outlives its route
		}
		if bound == 0 {
			return nil, nil
		}
		s = &slots{maxInFlight: bound}
		a.slots[backend.ID] = s
	}
	if len(s.waiting) == 0 && s.inFlight < s.share(a.live) {
		s.inFlight++
		return s, &waiter{granted: true}
	}
	if len(s.waiting) >= length {
		return s, nil
	}
	place := &waiter{ready: make(chan struct{}), moved: make(chan struct{}, 1)}
	s.waiting = append(s.waiting, place)
	s.renumber()
	return s, place
}

// await waits until the place is granted (nil) or the wait ends.
func (a *Admission) await(ctx context.Context, place *waiter, w Wait) error {
	timer := time.NewTimer(w.MaxWait)
	defer timer.Stop()
	if w.MaxWait <= 0 {
		timer.Stop()
	}
	for {
		select {
		case <-place.ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if w.leaves() {
				return ErrMaxWait
			}
			timer.Reset(askAgain)
		case <-w.Opened:
			return ErrOpened
		case <-place.moved:
			if position := a.position(place); position > 0 && w.Position != nil {
				w.Position(position)
			}
		}
	}
}

// position is the place in the queue, from 1; 0 when it has been left.
func (a *Admission) position(place *waiter) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place.granted {
		return 0
	}
	return place.position
}

// leave gives up a place. A slot that was granted at the same moment goes to the next one.
func (a *Admission) leave(id table.BackendID, s *slots, place *waiter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if place.granted {
		s.inFlight--
	} else if at := slices.Index(s.waiting, place); at >= 0 {
		s.waiting = slices.Delete(s.waiting, at, at+1)
	}
	a.settle(id, s)
}

func (a *Admission) release(id table.BackendID, s *slots) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.inFlight--
	a.settle(id, s)
}

// settle passes on what has become free, and forgets slots that nobody uses.
func (a *Admission) settle(id table.BackendID, s *slots) {
	s.grant(a.live)
	s.renumber()
	if s.inFlight == 0 && len(s.waiting) == 0 {
		delete(a.slots, id)
	}
}

// Room says whether a caller would get a slot at the backend, or a place in a queue of that length.
func (a *Admission) Room(backend *table.Backend, length int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slots[backend.ID]
	return s == nil || len(s.waiting) < length || len(s.waiting) == 0 && s.inFlight < s.share(a.live)
}

// Waiting is the number of callers that wait for the backend.
func (a *Admission) Waiting(id table.BackendID) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.slots[id]; s != nil {
		return len(s.waiting)
	}
	return 0
}
