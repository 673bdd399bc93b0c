package admission

import (
	"math"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

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

// Allow takes one token of the route's bucket. This proxy refills its bucket at the declared rate divided by the live
// proxies, and holds the whole burst.
func (a *Admission) Allow(route *table.Route) Decision {
	if route.RateLimit.Requests <= 0 {
		return Decision{OK: true}
	}
	return a.bucket(route).take(a.clock.Monotonic())
}

// bucket returns the route's bucket; a new one is full. Its limits are those of the last table, whichever one a request came by.
func (a *Admission) bucket(route *table.Route) *bucket {
	key := route.Key()
	if b, known := a.buckets.Load(key); known {
		return b.(*bucket)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if latest := a.applied.ByKey(key); latest != nil && latest.RateLimit.Requests > 0 {
		route = latest
	}
	b := &bucket{tokens: float64(max(route.RateLimit.Burst, 1))}
	b.configure(route.RateLimit, a.live, a.clock.Monotonic())
	kept, _ := a.buckets.LoadOrStore(key, b)
	return kept.(*bucket)
}

// rounding absorbs what floating point loses: a token is a token when it is full but for a millionth.
const rounding = 1e-6

// bucket is a token bucket on monotonic time.
type bucket struct {
	mu     sync.Mutex
	limit  table.RateLimit
	rate   float64 // tokens per second of this proxy
	tokens float64 // at time last
	last   time.Duration
}

func (b *bucket) limits() table.RateLimit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// configure takes new limits and keeps the tokens: what passed until now, passed at the old rate.
func (b *bucket) configure(limit table.RateLimit, live int, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit.Burst > 0 {
		b.refill(now)
	}
	b.last = max(b.last, now)
	limit.Burst = max(limit.Burst, 1)
	if limit.Per <= 0 {
		limit.Per = time.Second
	}
	b.limit = limit
	b.rate = float64(limit.Requests) / limit.Per.Seconds() / float64(live)
	b.tokens = min(b.tokens, float64(limit.Burst))
}

func (b *bucket) refill(now time.Duration) {
	if now > b.last {
		b.tokens = min(b.tokens+(now-b.last).Seconds()*b.rate, float64(b.limit.Burst))
		b.last = now
	}
}

func (b *bucket) take(now time.Duration) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	d := Decision{Limited: true, Limit: b.limit.Burst}
	if b.tokens >= 1-rounding {
		d.OK = true
		b.tokens = max(0, b.tokens-1)
	} else {
		seconds := math.Ceil(b.until(1).Seconds() - rounding)
		d.RetryAfter = time.Duration(max(seconds, 1)) * time.Second
	}
	d.Remaining = int(b.tokens + rounding)
	d.Reset = b.until(float64(b.limit.Burst))
	return d
}

// until is the time until the bucket holds n tokens.
func (b *bucket) until(n float64) time.Duration {
	missing := n - b.tokens
	if missing <= rounding {
		return 0
	}
	const longest = math.MaxInt64 / 2
	return time.Duration(min(missing/b.rate*float64(time.Second), longest))
}
