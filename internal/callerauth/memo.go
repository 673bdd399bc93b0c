package callerauth

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

const (
	// freshFor is how long a verdict in the caller's favour is used unasked, so how long a revoked token may still work.
	freshFor = time.Minute
	// refusedFor is how long a verdict against the caller is used, so how long a granted permission may take to work.
	refusedFor = 10 * time.Second
	// staleFor is how long a verdict in the caller's favour outlives its last confirmation while the API server does not
	// answer.
	staleFor = 24 * time.Hour
	// askTimeout bounds one question to the API server.
	askTimeout = 5 * time.Second
	// patience is how long a caller with an older verdict waits for its confirmation before that one counts.
	patience = time.Second
	// againAfter is the pause of a question after an answer did not come, for a caller with an older verdict.
	againAfter = 10 * time.Second
)

// answer is a verdict of the API server.
type answer[V any] struct {
	value V
	ok    bool      // in the caller's favour
	until time.Time // never used from then on; zero: no such end
}

// question asks the API server; known says that an older verdict in the caller's favour exists.
type question[V any] func(ctx context.Context, known bool) (answer[V], error)

// memo remembers verdicts. Those in favour and those against live apart, so that a flood of invented tokens pushes no
// real caller out. Questions for one key that come at the same time are asked once.
type memo[V any] struct {
	clock         clock.Clock
	kept, refused *cache.LRUExpireCache // key -> verdict[V]
	base          context.Context       // of all questions: a caller that leaves takes none with it that others wait for
	cancel        context.CancelFunc

	mu      sync.Mutex
	closed  bool
	flights map[string]*flight[V]
	running sync.WaitGroup
}

// verdict is an answer with how long it is used.
type verdict[V any] struct {
	answer[V]
	fresh time.Time // until then it is used unasked
	end   time.Time // until then it is kept
}

// flight is a question on its way. answer and err are set when done is closed.
type flight[V any] struct {
	done   chan struct{}
	answer answer[V]
	err    error
}

// newMemo returns a memo of at most limit verdicts in favour and as many against. close ends it.
func newMemo[V any](limit int, clk clock.Clock) *memo[V] {
	m := &memo[V]{
		clock: clk, flights: map[string]*flight[V]{},
		kept: cache.NewLRUExpireCacheWithClock(limit, clk), refused: cache.NewLRUExpireCacheWithClock(limit, clk),
	}
	m.base, m.cancel = context.WithCancel(context.Background())
	return m
}

// get returns the verdict on key, asking where none is fresh. The error is that of ctx, or of a question without an
// answer where no older verdict can stand in.
func (m *memo[V]) get(ctx context.Context, key string, ask question[V]) (answer[V], error) {
	got, fresh := m.find(key)
	if fresh {
		return got.answer, nil
	}
	f, err := m.start(key, ask)
	if err != nil {
		return answer[V]{}, err
	}
	var late <-chan time.Time
	if got.ok {
		timer := m.clock.NewTimer(patience)
		defer timer.Stop()
		late = timer.C()
	}
	select {
	case <-f.done:
		if f.err != nil && got.ok {
			return got.answer, nil
		}
		return f.answer, f.err
	case <-late:
		return got.answer, nil
	case <-ctx.Done():
		return answer[V]{}, ctx.Err()
	}
}

// has says whether a verdict on key would be found unasked.
func (m *memo[V]) has(key string) bool {
	_, fresh := m.find(key)
	return fresh
}

// find returns what is known of key, and whether that is to be used unasked.
func (m *memo[V]) find(key string) (got verdict[V], fresh bool) {
	now := m.clock.Now()
	for _, in := range []*cache.LRUExpireCache{m.refused, m.kept} {
		if found, ok := in.Get(key); ok && now.Before(found.(verdict[V]).end) {
			got = found.(verdict[V])
			return got, now.Before(got.fresh)
		}
	}
	return got, false
}

var errClosed = errors.New("the proxy is shutting down")

// start asks, or joins those who wait for the same answer.
func (m *memo[V]) start(key string, ask question[V]) (*flight[V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if f := m.flights[key]; f != nil {
		return f, nil
	}
	f := &flight[V]{done: make(chan struct{})}
	m.flights[key] = f
	m.running.Go(func() {
		f.answer, f.err = m.fly(key, ask)
		m.mu.Lock()
		delete(m.flights, key)
		m.mu.Unlock()
		close(f.done)
	})
	return f, nil
}

func (m *memo[V]) fly(key string, ask question[V]) (answer[V], error) {
	got, fresh := m.find(key) // another flight may have landed since the caller looked
	if fresh {
		return got.answer, nil
	}
	ctx, cancel := context.WithTimeout(m.base, askTimeout)
	defer cancel()
	a, err := ask(ctx, got.ok)
	now := m.clock.Now()
	switch {
	case err == nil && a.ok:
		m.refused.Remove(key)
		m.keep(key, &verdict[V]{answer: a, fresh: now.Add(freshFor), end: now.Add(staleFor)}, now)
	case err == nil:
		m.kept.Remove(key)
		m.refused.Add(key, verdict[V]{answer: a, fresh: now.Add(refusedFor), end: now.Add(refusedFor)}, refusedFor)
	case got.ok:
		got.fresh = now.Add(againAfter)
		m.keep(key, &got, now)
	}
	return a, err
}

// keep remembers a verdict in favour, to its own end at most.
func (m *memo[V]) keep(key string, v *verdict[V], now time.Time) {
	if !v.until.IsZero() && v.until.Before(v.end) {
		v.end = v.until
	}
	if v.end.Before(v.fresh) {
		v.fresh = v.end
	}
	if left := v.end.Sub(now); left > 0 {
		m.kept.Add(key, *v, left)
	}
}

// close ends the questions on their way and waits for them. Afterwards only what is remembered is answered.
func (m *memo[V]) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.running.Wait()
}
