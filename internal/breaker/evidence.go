package breaker

import (
	"cmp"
	"fmt"
	"time"
)

// settle takes the result of one request to where it belongs: the probe that was waited for, news from before the last
// opening or closing, or evidence of the present.
func (r *Registry) settle(p *Permit, res Result) {
	b, now := p.backend, r.clock.Monotonic()
	if p.trial != nil {
		p.trial.trial = nil
	}
	if b.gone {
		if b.probe == p {
			b.probe = nil
		}
		return
	}
	r.refresh(b, now)
	defer r.updateActivity(b, now)
	switch {
	case b.probe == p && p.generation == b.generation.Load():
		r.endProbe(p, res)
	case b.probe == p:
		r.releaseProbe(b)
	case p.probe.Load(): // its place was taken back
	case p.generation != b.generation.Load():
		r.extend(b, res, now)
	default:
		r.applyResult(p, res, now)
	}
}

// applyResult takes the result of a request of the present generation.
func (r *Registry) applyResult(p *Permit, res Result, now time.Duration) {
	b := p.backend
	switch res.Kind {
	case Success:
		r.applySuccess(p, now)
	case Silent:
		r.applySilence(p, res, now)
	case Failed:
		r.countEvent(p, failing, now)
		r.openAtThreshold(b, failing, res, now)
	case Refused:
		b.lastEndpoint = p.endpoint
		from := b.state()
		b.openFor(saturated, b.refusal(res, now))
		r.recordOpening(b, from, saturated)
	case Misconfigured:
		b.lastEndpoint = p.endpoint
		from := b.state()
		b.openFor(failing, b.opening(res, now))
		r.recordOpening(b, from, failing)
	case EndpointMissing:
		r.markEndpoint(p, res, now)
	}
}

// applySuccess takes a good answer: a complete one, or the first token of a probe. It closes what is open.
func (r *Registry) applySuccess(p *Permit, now time.Duration) {
	b := p.backend
	r.clearCounts(b, now)
	delete(b.wanted, ColdStart)
	if _, marked := b.marks[p.endpoint]; marked {
		delete(b.marks, p.endpoint)
		r.changed(false)
	}
	if !b.isOpen() {
		return
	}
	from, over := b.state(), b.open[b.leading()]
	causes := b.open[saturated].on && r.groupCause(b) == nil
	if b.probe == p {
		r.clearProbe(b)
	}
	b.clearOpenings()
	b.refusals = 0
	r.recordClosing(b, from, over)
	if causes {
		r.closeGroup(b)
	}
}

// applySilence takes a crossing of slowAfter.
func (r *Registry) applySilence(p *Permit, res Result, now time.Duration) {
	b := p.backend
	if b.answersOthers(res, now) {
		return
	}
	r.countEvent(p, saturated, now)
	r.openAtThreshold(b, saturated, res, now)
	r.wantColdStart(p)
}

// answersOthers says that somebody else's answer is in progress: the backend has few slots, and this proxy saw a token from it
// within the time that the silent one waited.
func (b *backend) answersOthers(res Result, now time.Duration) bool {
	limit := cmp.Or(res.SlowAfter, b.cfg.waits.slowAfter)
	last := time.Duration(b.lastToken.Load())
	return b.cfg.backend.MaxInFlight > 0 && last > 0 && now-last <= limit
}

// countEvent counts one event. A count that leaves zero is urgent: peers add it to theirs.
func (r *Registry) countEvent(p *Permit, c class, now time.Duration) {
	b := p.backend
	b.lastEndpoint = p.endpoint
	b.counts[c] = count{n: b.counts[c].n + 1, last: now}
	r.changed(b.counts[c].n == 1)
}

func (r *Registry) openAtThreshold(b *backend, c class, res Result, now time.Duration) {
	if r.total(b, c) < b.cfg.threshold[c] {
		return
	}
	from := b.state()
	b.openFor(c, b.opening(res, now))
	r.recordOpening(b, from, c)
}

// recordOpening makes an opening known, and spreads saturation to the group.
func (r *Registry) recordOpening(b *backend, from State, c class) {
	r.recordTransition(b, from)
	if c == saturated {
		r.saturateGroup(b)
	}
}

// extend takes news from before the last opening or closing. It neither closes nor re-opens; what is open for the same
// kind of trouble stays so for longer, here, in the group and in the fleet.
func (r *Registry) extend(b *backend, res Result, now time.Duration) {
	var o opening
	switch res.Kind {
	case Silent, Failed, Misconfigured:
		o = b.opening(res, now)
	case Refused:
		o = b.refusal(res, now)
	default:
		return
	}
	c := classOf(o.reason)
	if !b.open[c].on || o.until <= b.open[c].until {
		return
	}
	if res.Kind == Refused && b.open[c].reason == ReasonSaturated {
		b.open[c].reason, b.open[c].message = o.reason, o.message // of silence, peers would believe no more than the cooldown
	}
	b.open[c].until = o.until
	b.tellExtension()
	if c == saturated {
		r.extendGroup(b)
	}
	r.changed(false)
}

// leastExtension is by how much a retryAt comes to be later before the fleet is told.
const leastExtension = time.Second

// tellExtension counts that b's opening has come to be longer, where that makes a difference.
func (b *backend) tellExtension() {
	if b.retryAt() >= b.toldRetryAt+leastExtension {
		b.extensions = min(b.extensions+1, maxCount)
		b.toldRetryAt = b.retryAt()
	}
}

// markEndpoint passes over one pair of backend and endpoint.
func (r *Registry) markEndpoint(p *Permit, res Result, now time.Duration) {
	b := p.backend
	if b.marks == nil {
		b.marks = map[string]*endpointMark{}
	}
	m := b.marks[p.endpoint]
	if m == nil {
		m = &endpointMark{}
		b.marks[p.endpoint] = m
	}
	m.until, m.message = now+b.cfg.cooldown[failing], b.message(res)
	b.wakePair(p.endpoint)
	r.changed(true)
}

// opening is what a result of a class with a plain cooldown opens the breaker for.
func (b *backend) opening(res Result, now time.Duration) opening {
	o := opening{reason: ReasonFailing, message: b.message(res)}
	switch res.Kind {
	case Silent:
		o.reason = ReasonSaturated
	case Misconfigured:
		o.reason = ReasonMisconfigured
	}
	o.until = now + b.cfg.cooldown[classOf(o.reason)]
	return o
}

// refusal is what an explicit refusal opens the breaker for.
func (b *backend) refusal(res Result, now time.Duration) opening {
	o := opening{reason: ReasonRefused, message: b.message(res)}
	switch {
	case res.Quota:
		o.reason = ReasonQuota
		o.until = now + b.cfg.cooldown[saturated]
	case res.RetryAfter > 0:
		o.until = now + min(res.RetryAfter, MaxRetryAfter)
	default:
		o.until = now + b.refusalCooldown()
	}
	return o
}

// refusalCooldown doubles from the failure cooldown up to the saturation cooldown.
func (b *backend) refusalCooldown() time.Duration {
	d, longest := b.cfg.cooldown[failing], b.cfg.cooldown[saturated]
	for range b.refusals {
		if d >= longest {
			break
		}
		d = min(2*d, longest)
	}
	return d
}

// message is the sentence that people read in status. It names no host.
func (b *backend) message(res Result) string {
	if res.Message != "" {
		return res.Message
	}
	switch res.Kind {
	case Silent:
		if limit := cmp.Or(res.SlowAfter, b.cfg.waits.slowAfter); limit > 0 {
			return fmt.Sprintf("no first token within %s", limit)
		}
		return "no first token in time"
	case Refused:
		if res.Quota {
			return "the account's quota is spent"
		}
		return "refused for want of capacity"
	case Misconfigured:
		return "refused our credentials or redirected us"
	case EndpointMissing:
		return "does not serve this endpoint"
	}
	return "wrong answers or none"
}
