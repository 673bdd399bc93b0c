package proxy

import "sync/atomic"

// memory is the process-wide budget of bytes for request bodies.
type memory struct {
	limit int64
	used  atomic.Int64
}

// lease is one request's part of the budget. It is not safe for concurrent use.
type lease struct {
	memory *memory
	held   int64
}

func (m *memory) lease() *lease { return &lease{memory: m} }

// grow makes the lease cover n bytes in all; false when the budget is spent, and then it holds what it held.
func (l *lease) grow(n int64) bool {
	more := n - l.held
	if more <= 0 {
		return true
	}
	if l.memory.used.Add(more) > l.memory.limit {
		l.memory.used.Add(-more)
		return false
	}
	l.held = n
	return true
}

// release gives everything back. Further calls do nothing.
func (l *lease) release() {
	l.memory.used.Add(-l.held)
	l.held = 0
}
