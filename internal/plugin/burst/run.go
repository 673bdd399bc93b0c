package burst

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Plan says which calls are made: each level of concurrency so many times, one burst after the other.
type Plan struct {
	Levels  []int // calls at once
	Repeats int
	// Pause between two bursts, so that one does not run into the next.
	Pause time.Duration
}

// DefaultPlan makes 138 calls.
var DefaultPlan = Plan{Levels: []int{1, 5, 10, 30}, Repeats: 3, Pause: time.Second}

// Calls is how many the plan makes.
func (p Plan) Calls() int {
	sum := 0
	for _, level := range p.Levels {
		sum += level
	}
	return sum * p.Repeats
}

// Answer is what became of one call.
type Answer struct {
	// Status of the response; 0 where there was none.
	Status int
	// Failure says why there was none, or why a good status is no answer: "timeout", "connection", "no completion".
	Failure string
	// Code is error.code of an OpenAI error body.
	Code string
	// Backend is X-Spillway-Backend.
	Backend string
	// RetryAfter says whether the header was there.
	RetryAfter bool
	// Took is the time to the end of the answer.
	Took time.Duration
}

// Admitted says whether the call was served.
func (a *Answer) Admitted() bool { return a.Status/100 == 2 && a.Failure == "" }

// Shed says whether the call was turned away for want of capacity.
func (a *Answer) Shed() bool {
	switch a.Status {
	case 429, 503, 529:
		return true
	}
	return false
}

// settled says whether the call was refused in a way that no amount of room would change: a wrong model, key or address.
func (a *Answer) settled() bool {
	return a.Status/100 == 3 || a.Status/100 == 4 && a.Status != 408 && !a.Shed()
}

// Level is what became of the calls of one concurrency.
type Level struct {
	Concurrency int `json:"concurrency"`
	Calls       int `json:"calls"`
	Admitted    int `json:"admitted"`
	// Shed counts by status, ShedCodes by error code; ShedIn is in how many of Bursts at least one call was shed.
	Shed      map[string]int `json:"shed,omitempty"`
	ShedCodes map[string]int `json:"shedCodes,omitempty"`
	ShedIn    int            `json:"shedIn"`
	Bursts    int            `json:"bursts"`
	// RetryAfter counts the shed answers that carried the header.
	RetryAfter int `json:"retryAfter"`
	// Failed counts the other ends, by status or by what went wrong.
	Failed map[string]int `json:"failed,omitempty"`
	// Backends counts the admitted calls by backend, where the server tells.
	Backends map[string]int `json:"backends,omitempty"`
	// Latency of the admitted calls; nil without any.
	Latency *Latency `json:"latency,omitempty"`

	took []time.Duration
}

// ShedCalls is how many calls were shed.
func (l *Level) ShedCalls() int { return sum(l.Shed) }

// FailedCalls is how many calls were neither admitted nor shed.
func (l *Level) FailedCalls() int { return sum(l.Failed) }

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// Latency are percentiles in milliseconds.
type Latency struct {
	P50 int64 `json:"p50Ms"`
	P90 int64 `json:"p90Ms"`
	P99 int64 `json:"p99Ms"`
	Max int64 `json:"maxMs"`
}

// Run makes the calls of the plan with call, and calls after when a burst is over. It stops early where ctx ends, which is an
// error, and after a burst of which every call was refused for good: settled is such an answer.
func Run(ctx context.Context, p Plan, call func(context.Context) Answer, after func(done int, l *Level)) (levels []Level, settled *Answer, err error) {
	done := 0
	for _, concurrency := range p.Levels {
		levels = append(levels, Level{Concurrency: concurrency})
		level := &levels[len(levels)-1]
		for range p.Repeats {
			if err := pause(ctx, p.Pause, done == 0); err != nil {
				return finish(levels), nil, err
			}
			answers := together(ctx, concurrency, call)
			if err := ctx.Err(); err != nil {
				return finish(levels), nil, err
			}
			level.take(answers)
			done += concurrency
			after(done, level)
			if slices.IndexFunc(answers, func(a Answer) bool { return !a.settled() }) < 0 {
				return finish(levels), &answers[0], nil
			}
		}
	}
	return finish(levels), nil, nil
}

func pause(ctx context.Context, d time.Duration, first bool) error {
	if first || d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// together makes n calls that begin at one moment.
func together(ctx context.Context, n int, call func(context.Context) Answer) []Answer {
	answers := make([]Answer, n)
	start := make(chan struct{})
	var wait sync.WaitGroup
	for i := range answers {
		wait.Go(func() {
			<-start
			answers[i] = call(ctx)
		})
	}
	close(start)
	wait.Wait()
	return answers
}

func (l *Level) take(answers []Answer) {
	l.Bursts++
	shedBefore := l.ShedCalls()
	for i := range answers {
		l.count(&answers[i])
	}
	if l.ShedCalls() > shedBefore {
		l.ShedIn++
	}
}

func (l *Level) count(a *Answer) {
	l.Calls++
	switch {
	case a.Admitted():
		l.Admitted++
		l.took = append(l.took, a.Took)
		if a.Backend != "" {
			add(&l.Backends, a.Backend)
		}
	case a.Shed():
		add(&l.Shed, strconv.Itoa(a.Status))
		if a.Code != "" {
			add(&l.ShedCodes, a.Code)
		}
		if a.RetryAfter {
			l.RetryAfter++
		}
	case a.Failure != "":
		add(&l.Failed, a.Failure)
	default:
		add(&l.Failed, strconv.Itoa(a.Status))
	}
}

func add(counts *map[string]int, key string) {
	if *counts == nil {
		*counts = map[string]int{}
	}
	(*counts)[key]++
}

func finish(levels []Level) []Level {
	for i := range levels {
		levels[i].Latency = latencyOf(levels[i].took)
	}
	return levels
}

func latencyOf(took []time.Duration) *Latency {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	at := func(percent int) int64 { // nearest rank
		return took[(len(took)*percent+99)/100-1].Milliseconds()
	}
	return &Latency{P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// Names are the keys of counts, sorted.
func Names(counts map[string]int) []string { return slices.Sorted(maps.Keys(counts)) }
