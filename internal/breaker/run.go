package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// idleWait is how long Run sleeps when nothing is due; changes wake it.
	idleWait = time.Minute
	// wallCheckInterval is the longest sleep while a pin may decide: pins go by wall time, which may be stepped.
	wallCheckInterval = time.Second
	// newsDelay is how long the end of a probe may take to become known to the fleet. It is far more than the second in which
	// nearly all reports are adopted: to be late costs nothing, to be early asks a busy backend twice.
	newsDelay = 10 * time.Second
)

// job is one synthetic request that is out.
type job struct {
	purpose Purpose
	permit  *Permit
	bound   time.Duration
	cancel  context.CancelFunc
	stopped bool // by us: its end tells nothing
}

func (j *job) stop() {
	j.stopped = true
	j.cancel()
}

// Suspect says that an attempt ended for reasons of its own after at least SuspicionAfter without a first token, and
// before slowAfter. One synthetic request finds out, unless the breaker is not Closed or a pin rests the backend.
func (r *Registry) Suspect(id table.BackendID, endpoint string) {
	b := r.lookup(id)
	if b == nil {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	r.refresh(b, now)
	limited := b.cfg.waits.slowAfter > 0
	if b.gone || !limited || b.state() != Closed || b.jobs[Suspicion] != nil || b.cfg.restedAt(r.clock.Wall()) {
		return
	}
	r.want(b, Suspicion, endpoint)
	r.updateActivity(b, now)
}

// Run sends synthetic requests through p until ctx ends: recovery, suspicion and cold start. It returns after every
// goroutine that it started has ended. Call it once.
func (r *Registry) Run(ctx context.Context, p Prober) {
	var jobs sync.WaitGroup
	defer jobs.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(r.dispatch(&runner{ctx, p, &jobs}))
	}
}

// runner is what a job needs of Run.
type runner struct {
	ctx    context.Context // ends with Run
	prober Prober
	jobs   *sync.WaitGroup
}

// dispatch starts what is due, stops what must not go on, and returns how long to sleep.
func (r *Registry) dispatch(run *runner) time.Duration {
	r.mu.Lock()
	defer r.unlock()
	now, wall := r.clock.Monotonic(), r.clock.Wall()
	wait := idleWait
	for b := range r.active { // in no order: there may be thousands, and none waits for another
		r.refresh(b, now)
		wait = min(wait, r.attend(run, b, now, wall))
	}
	return max(wait, time.Millisecond)
}

// attend does what one backend needs now, and returns when to look at it again.
func (r *Registry) attend(run *runner, b *backend, now time.Duration, wall time.Time) time.Duration {
	if !b.isOpen() && len(b.jobs) == 0 && len(b.wanted) == 0 {
		return idleWait
	}
	wait := b.cfg.pinWait(wall)
	if b.cfg.restedAt(wall) {
		b.stopProbes()
		b.probesHeldUntil = now
		r.updateActivity(b, now)
		return wait
	}
	r.startWanted(run, b)
	if b.probe != nil {
		return min(wait, b.probe.expires-now)
	}
	due, ok := r.recoveryAt(b)
	switch {
	case !ok || b.jobs[Recovery] != nil:
		return wait
	case due > now:
		return min(wait, due-now)
	case r.groupProbed(b, now):
		return min(wait, wallCheckInterval) // nothing wakes us when a peer's is over
	}
	r.start(run, b, Recovery, b.lastEndpoint)
	return wait
}

// pinWait is how long Run may sleep without missing the start or end of a pin.
func (c *config) pinWait(wall time.Time) time.Duration {
	if len(c.pinned) == 0 {
		return idleWait
	}
	if next := c.nextPin(wall); !next.IsZero() {
		return min(wallCheckInterval, next.Sub(wall))
	}
	return wallCheckInterval
}

// stopProbes stops everything of ours at a backend that a pin rests.
func (b *backend) stopProbes() {
	clear(b.wanted)
	for _, j := range b.jobs {
		j.stop()
	}
}

// recoveryAt says when this proxy is to probe b. In a fleet one proxy probes; each next one takes over when no news came
// within the bound of the probe before it, and the time that news may need: a silent probe ends at its very bound.
func (r *Registry) recoveryAt(b *backend) (at time.Duration, ok bool) {
	if !b.isOpen() || b.probesByRequest() {
		return 0, false
	}
	at = max(r.probeDue(b), b.yieldUntil, b.probesHeldUntil)
	rank, ok := r.rankOf(b)
	return at + time.Duration(rank)*(b.cfg.probeBound()+newsDelay), ok
}

// reservedForProbe says that a synthetic probe is due at b, and that its place came free only a moment ago: the proxy whose turn it
// is may not have heard of that yet. Without it, callers who leave early, one after the other, would hold the place for ever, and
// none of them would bring news.
func (r *Registry) reservedForProbe(b *backend, now time.Duration) bool {
	due := !b.probedByCallers() && now >= r.probeDue(b)
	return due && b.probesHeldUntil > 0 && now < b.probesHeldUntil+newsDelay && !b.cfg.restedAt(r.clock.Wall())
}

// startWanted begins suspicion and cold start.
func (r *Registry) startWanted(run *runner, b *backend) {
	if endpoint, wanted := b.wanted[Suspicion]; wanted {
		delete(b.wanted, Suspicion)
		if b.state() == Closed && b.jobs[Suspicion] == nil {
			r.start(run, b, Suspicion, endpoint)
		}
	}
	if endpoint, wanted := b.wanted[ColdStart]; wanted {
		delete(b.wanted, ColdStart)
		if b.jobs[ColdStart] == nil {
			r.start(run, b, ColdStart, endpoint)
		}
	}
}

// start sends one synthetic request.
func (r *Registry) start(run *runner, b *backend, purpose Purpose, endpoint string) {
	if endpoint == "" {
		endpoint = DefaultEndpoint
	}
	permit := &Permit{registry: r, backend: b, endpoint: endpoint, generation: b.generation.Load(), synthetic: true}
	permit.done.Store(true) // it is settled here, not through Done
	bound := b.cfg.probeBound()
	switch purpose {
	case Recovery:
		r.sendProbe(b, permit, r.clock.Monotonic())
	case Suspicion:
		bound = b.cfg.waits.slowAfter
	case ColdStart:
		bound = b.cfg.waits.grace
	}
	ctx, cancel := context.WithTimeout(run.ctx, bound)
	j := &job{purpose: purpose, permit: permit, bound: bound, cancel: cancel}
	if b.jobs == nil {
		b.jobs = map[Purpose]*job{}
	}
	b.jobs[purpose] = j
	req := ProbeRequest{ID: b.id, Backend: b.cfg.backend, Endpoint: endpoint, Purpose: purpose, Bound: bound}
	run.jobs.Go(func() {
		defer cancel()
		res := run.prober.Probe(ctx, req)
		r.finish(j, res, ctx.Err())
	})
}

// finish takes what a synthetic request ended in; ended is the error of its context.
func (r *Registry) finish(j *job, res Result, ended error) {
	r.mu.Lock()
	defer r.unlock()
	b := j.permit.backend
	if b.jobs[j.purpose] == j {
		delete(b.jobs, j.purpose)
	}
	expired := errors.Is(ended, context.DeadlineExceeded)
	switch {
	case j.stopped, ended != nil && !expired:
		res = Result{}
	case res.Kind == Neutral && expired && b.cfg.waits.slowAfter > 0: // where it is off, silence is no evidence of anything
		res = Result{Kind: Silent, Message: fmt.Sprintf("no first token within %s", j.bound)}
	case res.Kind == Neutral && j.purpose == Recovery:
		res = Result{Kind: unanswered}
	}
	if j.purpose == ColdStart {
		r.finishColdStart(j.permit, res)
		return
	}
	r.settle(j.permit, res)
	r.wakeRun()
}

// finishColdStart clears what silence counted when the model was but cold, and closes what silence alone holds open, whichever
// proxy's it was: in a fleet, callers of several wait for the same load. Anything else is no news: the silence has been counted
// already.
func (r *Registry) finishColdStart(p *Permit, res Result) {
	b, now := p.backend, r.clock.Monotonic()
	if b.gone {
		return
	}
	r.refresh(b, now)
	if res.Kind == Success {
		if p.generation == b.generation.Load() || b.openForSilence() {
			r.applySuccess(p, now)
		} else {
			r.clearCounts(b, now)
		}
	}
	r.updateActivity(b, now)
}

// wantColdStart leaves one detached request to a backend that went silent, so that a cold model can load. One that is
// out already stands for the new silence too: its token would explain that as well.
func (r *Registry) wantColdStart(p *Permit) {
	b := p.backend
	if b.cfg.waits.grace <= 0 {
		return
	}
	if j := b.jobs[ColdStart]; j != nil {
		j.permit.generation = b.generation.Load()
		return
	}
	r.want(b, ColdStart, p.endpoint)
}

func (r *Registry) want(b *backend, purpose Purpose, endpoint string) {
	if b.wanted == nil {
		b.wanted = map[Purpose]string{}
	}
	b.wanted[purpose] = endpoint
	r.wakeRun()
}
