package breaker

import "time"

// recordTransition makes one's own change of b known: an opening, a re-opening, or one more class of trouble.
func (r *Registry) recordTransition(b *backend, from State) {
	r.nextEpoch(b)
	b.since = r.clock.Wall()
	r.beginGeneration(b, from, ReasonNone, false)
}

// recordClosing makes one's own closing of b known; over is what held it open.
func (r *Registry) recordClosing(b *backend, from State, over opening) {
	b.listedUntil = r.clock.Monotonic() + b.cfg.cooldown[classOf(over.reason)]
	r.nextEpoch(b)
	b.since = r.clock.Wall()
	r.beginGeneration(b, from, over.reason, false)
}

// nextEpoch makes what b stands at newer than all that is known of it.
func (r *Registry) nextEpoch(b *backend) {
	b.epoch = 1 + r.highestEpoch(b)
	b.origin, b.merged, b.extensions = r.self, nil, 0
	b.toldRetryAt = b.retryAt()
}

// beginGeneration begins a new generation: results of requests admitted before it neither close nor re-open the breaker.
func (r *Registry) beginGeneration(b *backend, from State, over Reason, adopted bool) {
	b.calm.Store(false)
	b.generation.Add(1)
	b.awaitsCaller, b.yieldUntil = false, 0
	if b.isOpen() {
		b.wakeQueue()
	}
	r.announce(b, from, over, adopted)
	r.changed(!adopted) // who made the change has told everybody already
	r.wakeRun()
	r.updateActivity(b, r.clock.Monotonic())
}

// wakeQueue sends on those who queue for b.
func (b *backend) wakeQueue() {
	for endpoint := range b.opened {
		b.wakePair(endpoint)
	}
}

// wakePair sends on those who queue for b with one endpoint.
func (b *backend) wakePair(endpoint string) {
	if opened := b.opened[endpoint]; opened != nil {
		close(opened)
		delete(b.opened, endpoint)
	}
}

// announceProbe makes a change known that is no opening and no closing: a probe goes out, or gives its place back.
func (r *Registry) announceProbe(b *backend, from State) {
	if from == b.state() {
		return
	}
	r.announce(b, from, ReasonNone, false)
	r.changed(false)
	r.wakeRun()
}

func (r *Registry) announce(b *backend, from State, over Reason, adopted bool) {
	t := &Transition{
		ID:        b.id,
		Namespace: b.cfg.namespace,
		Names:     b.cfg.names,
		Group:     b.cfg.backend.Group,
		From:      from,
		To:        b.state(),
		Reason:    over,
		Adopted:   adopted,
	}
	if b.isOpen() {
		leading := b.open[b.leading()]
		t.Reason, t.Message = leading.reason, leading.message
		t.RetryAt = r.clock.Wall().Add(leading.until - r.clock.Monotonic())
	}
	r.pending = append(r.pending, notice{transition: t})
}

// highestEpoch is the highest seen in own state or any report, also in one that is being adopted.
func (r *Registry) highestEpoch(b *backend) uint64 {
	highest := b.epoch
	for _, p := range r.peers {
		if rec, known := p.records[b.id]; known {
			highest = max(highest, rec.Epoch)
		}
	}
	return highest
}

// reportedByPeers says whether any peer's report names the id.
func (r *Registry) reportedByPeers(b *backend) bool {
	for _, p := range r.peers {
		if _, known := p.records[b.id]; known {
			return true
		}
	}
	return false
}

// clearCounts forgets both counts after a good answer, here and, through lastGood, everywhere.
func (r *Registry) clearCounts(b *backend, now time.Duration) {
	listed := time.Duration(0)
	for c := range classes {
		if r.total(b, c) > 0 {
			listed = max(listed, b.cfg.cooldown[c])
		}
	}
	if listed == 0 {
		return
	}
	b.lastGood++ // it is the highest that any report has told of
	b.counts = [classes]count{}
	b.listedUntil = max(b.listedUntil, now+listed)
	r.changed(true)
}
