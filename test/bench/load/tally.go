package load

import (
	"sync"
	"sync/atomic"
	"time"
)

// Tally is what became of the requests of a run.
type Tally struct {
	// Latency runs from when a request was due to the end of its answer, Token to its first token.
	Latency, Token Hist

	ok, chunks atomic.Int64
	mu         sync.Mutex
	errors     map[string]int
}

// OK is how many requests were answered whole.
func (t *Tally) OK() int { return int(t.ok.Load()) }

// Chunks is how many chunks of content the whole answers had.
func (t *Tally) Chunks() int { return int(t.chunks.Load()) }

// Errors counts what went wrong, by its words.
func (t *Tally) Errors() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]int, len(t.errors))
	for words, n := range t.errors {
		all[words] = n
	}
	return all
}

// Failed is how many requests went wrong.
func (t *Tally) Failed() int {
	n := 0
	for _, count := range t.Errors() {
		n += count
	}
	return n
}

func (t *Tally) fail(words string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.errors == nil {
		t.errors = map[string]int{}
	}
	t.errors[words]++
}

// add records how a request ended that was due at a time.
func (t *Tally) add(r *Request, a *Answer, err error, due time.Time) {
	if err == nil {
		err = a.Check(r)
	}
	if err != nil {
		t.fail(err.Error())
		return
	}
	t.ok.Add(1)
	t.chunks.Add(int64(a.chunks))
	t.Latency.Add(a.Ended.Sub(due))
	if r.stream {
		t.Token.Add(a.Token.Sub(due))
	}
}
