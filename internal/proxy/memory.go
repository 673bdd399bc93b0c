package proxy

import "sync/atomic"

// memory is the process-wide budget of bytes for what is held: bodies, and of a stream what is more than a little.
type memory struct {
	limit int64
	used  atomic.Int64
}

// lease is one body's part of the budget. It is not safe for concurrent use; nil stands for a body that is not counted.
type lease struct {
	memory *memory
	limit  int64 // of all that is used, for this lease to grow

	held int64
}

// requestLease is the lease of a request's body. An eighth of the budget is kept from these: a backend's work must not be lost
// because of callers that have only come.
func (m *memory) requestLease() *lease { return &lease{memory: m, limit: m.limit - m.limit/8} }

// answerLease is the lease of an answer that is held whole.
func (m *memory) answerLease() *lease { return &lease{memory: m, limit: m.limit} }

// grow makes the lease cover n bytes in all; false when the budget is spent, and then it holds what it held.
func (l *lease) grow(n int64) bool {
	if l == nil {
		return true
	}
	more := n - l.held
	if more <= 0 {
		return true
	}
	if l.memory.used.Add(more) > l.limit {
		l.memory.used.Add(-more)
		return false
	}
	l.held = n
	return true
}

// release gives everything back. Further calls do nothing.
func (l *lease) release() {
	if l == nil || l.held == 0 {
		return
	}
	l.memory.used.Add(-l.held)
	l.held = 0
}
