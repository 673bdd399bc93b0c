package load

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

const (
	subBits = 7 // 128 buckets for each power of two: a quantile is within 0.8 % of what was recorded
	sub     = 1 << subBits
)

// Hist is a histogram of durations. It is safe for concurrent use; the zero value is empty.
type Hist struct {
	mu     sync.Mutex
	counts [(64 - subBits) * sub]uint64
	n      uint64
}

// Add records d; a negative one counts as 0.
func (h *Hist) Add(d time.Duration) {
	h.mu.Lock()
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
	h.mu.Unlock()
}

func bucket(v uint64) int {
	if v < sub {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1 // v>>shift is in [sub, 2*sub)
	return shift*sub + int(v>>shift)
}

// middle is the duration in the middle of a bucket.
func middle(i int) time.Duration {
	if i < sub {
		return time.Duration(i)
	}
	shift := i/sub - 1
	low := uint64(i-shift*sub) << shift
	return time.Duration(low + uint64(1)<<shift/2)
}

// Quantile returns the smallest recorded duration that a part q of all does not exceed; 0 where nothing was recorded.
func (h *Hist) Quantile(q float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	want := max(uint64(math.Ceil(q*float64(h.n))), 1)
	var seen uint64
	for i, count := range h.counts {
		if seen += count; seen >= want {
			return middle(i)
		}
	}
	return 0
}
