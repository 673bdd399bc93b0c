package breaker

import "time"

// unanswered is a probe of our own that ended without any news: it counts nowhere, and re-opens the breaker.
const unanswered Kind = -1

// endProbe takes the result of the probe that was out, and frees its place.
func (r *Registry) endProbe(p *Permit, res Result) {
	b, now := p.backend, r.clock.Monotonic()
	switch res.Kind {
	case Success:
		r.applySuccess(p, now)
	case Settled:
		r.settledProbe(p, now)
	case Neutral:
		r.releaseProbe(b)
	case EndpointMissing:
		r.markEndpoint(p, res, now)
		r.missedProbe(p, res, now)
	default:
		r.failedProbe(p, res, now)
	}
}

// settledProbe takes an answer about the request: the backend is there. A caller's closes what failures opened, and clears
// no count, which only a good answer does. Whether it has capacity again only the next caller's request can tell, and so it
// is with a probe of our own that was rejected. Further callers' make no news of that.
func (r *Registry) settledProbe(p *Permit, now time.Duration) {
	b := p.backend
	from, over := b.state(), b.open[failing]
	if !p.synthetic && over.on {
		b.open[failing] = opening{}
		if !b.isOpen() {
			r.clearProbe(b)
			b.refusals = 0
			r.recordClosing(b, from, over)
			return
		}
	}
	if b.awaitsCaller && !p.synthetic {
		r.releaseProbe(b)
		return
	}
	// Re-opened for a whole cooldown, here and in the fleet, so that no proxy sends another probe of its own before.
	r.clearProbe(b)
	c := b.leading()
	o := b.open[c]
	o.until = now + b.cfg.cooldown[c] + r.boundedJitter(b.cfg.cooldown[c])
	b.openFor(c, o)
	r.recordOpening(b, from, c)
	b.awaitsCaller = true
}

// missedProbe takes a 404 to the probe. Of a caller's request it says nothing about the breaker. Nor of our own when we
// could but guess the dialect: then the proxy that knows takes over, as no news comes from here. Else it is as good as
// no answer, but the next caller's request tells: a server without the dialect that last failed may serve theirs.
func (r *Registry) missedProbe(p *Permit, res Result, now time.Duration) {
	b := p.backend
	switch {
	case !p.synthetic:
		r.releaseProbe(b)
	case b.lastEndpoint == "":
		b.yieldUntil = now + b.cfg.cooldown[b.leading()]
		r.releaseProbe(b)
	default:
		r.failedProbe(p, res, now)
		b.awaitsCaller = true
	}
}

// failedProbe counts what the probe met, and re-opens the breaker for a whole cooldown.
func (r *Registry) failedProbe(p *Permit, res Result, now time.Duration) {
	b := p.backend
	from := b.state()
	r.clearProbe(b)
	b.lastEndpoint = p.endpoint
	wasRefused := b.open[saturated].on && b.open[saturated].reason == ReasonRefused
	if wasRefused {
		b.refusals = min(b.refusals+1, maxCount)
	}
	r.applyProbeFailure(p, res, wasRefused, now)
	r.recordTransition(b, from)
	if b.open[saturated].on && r.groupCause(b) == nil && !res.isFailure() {
		r.saturateGroup(b)
	}
	if res.Kind == Silent && !p.synthetic {
		r.wantColdStart(p)
	}
}

// isFailure says that the result is one of a backend that is broken, which says nothing of others on its hardware.
func (res Result) isFailure() bool {
	return res.Kind == Failed || res.Kind == Misconfigured || res.Kind == EndpointMissing
}

// applyProbeFailure takes the evidence of a probe that failed, and re-opens each class that was open for a whole cooldown.
func (r *Registry) applyProbeFailure(p *Permit, res Result, wasRefused bool, now time.Duration) {
	b := p.backend
	wasOpen := b.open
	switch res.Kind {
	case Refused:
		r.refusedAgain(b, res, wasRefused, now)
		wasOpen[saturated].on = false // it has its own measure
	case Misconfigured:
		b.openFor(failing, b.opening(res, now))
	case Silent:
		if !b.answersOthers(res, now) {
			r.countEvent(p, saturated, now)
			r.joinAtThreshold(b, saturated, res, now)
		}
	case Failed:
		r.countEvent(p, failing, now)
		r.joinAtThreshold(b, failing, res, now)
	}
	for c := range classes {
		if wasOpen[c].on {
			r.reopen(b, c, res, now)
		}
	}
}

// leastPause is how long a probe that was refused re-opens for, at least. Limiters ask for milliseconds (x-ratelimit-reset-requests:
// 17ms) and go on to refuse: they would get one probe after the other, as fast as they answer.
const leastPause = time.Second

// refusedAgain holds the breaker for what the backend asks for now, else for twice the last time.
func (r *Registry) refusedAgain(b *backend, res Result, wasRefused bool, now time.Duration) {
	if !wasRefused {
		b.refusals = 0
	}
	if res.RetryAfter > 0 {
		res.RetryAfter = max(res.RetryAfter, leastPause)
	}
	o := b.refusal(res, now)
	o.until += r.boundedJitter(o.until - now)
	b.openFor(saturated, o)
}

// joinAtThreshold opens a breaker that is open already for one more class.
func (r *Registry) joinAtThreshold(b *backend, c class, res Result, now time.Duration) {
	if !b.open[c].on && r.total(b, c) >= b.cfg.threshold[c] {
		b.openFor(c, b.opening(res, now))
	}
}

// reopen re-opens one class for its whole cooldown and its jitter, with the newest message.
func (r *Registry) reopen(b *backend, c class, res Result, now time.Duration) {
	cooldown := b.cfg.cooldown[c]
	if c == saturated && b.open[c].reason == ReasonRefused {
		cooldown = b.refusalCooldown()
	}
	o := b.open[c]
	switch {
	case c == saturated && res.Kind == Silent && o.reason == ReasonGroupSaturated:
		o.reason = ReasonSaturated // this is evidence of its own
	case c == failing && res.Kind == Failed:
		o.reason = ReasonFailing
	}
	o.until = now + cooldown + r.boundedJitter(cooldown)
	if res.Kind != unanswered {
		o.message = b.message(res)
	}
	b.openFor(c, o)
}

// boundedJitter is the jitter of a cooldown: from 0 to a tenth of it, whatever Options.Jitter returns.
func (r *Registry) boundedJitter(cooldown time.Duration) time.Duration {
	return min(max(0, r.jitter(cooldown)), cooldown/10)
}
