package breaker

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// maxCounter bounds the Lamport counters that are believed: beyond it, adding one would wrap some day.
	maxCounter = 1 << 62
	// maxCount bounds a count that is believed.
	maxCount = 1 << 20
)

// peer is the newest report of another proxy.
type peer struct {
	at      time.Duration // when it was adopted
	records map[table.BackendID]Record
}

// SetPeers names the live, non-draining proxies, this one included unless it drains. The highest rendezvous hash of
// (backend, pod) probes, or of (group, pod). Without a call, or with an empty list, this proxy probes alone.
func (r *Registry) SetPeers(live []string) {
	r.mu.Lock()
	defer r.unlock()
	r.live = slices.Sorted(slices.Values(live))
	r.rankGeneration++
	r.wakeRun()
}

// rankOf is this proxy's place among those that may probe b: 0 probes, the next takes over when no news comes. ok is
// false for a proxy that is not to probe.
func (r *Registry) rankOf(b *backend) (rank int, ok bool) {
	if len(r.live) == 0 {
		return 0, true
	}
	if b.rankGeneration != r.rankGeneration {
		b.rankGeneration, b.rank = r.rankGeneration, rendezvous(r.probeKey(b), r.self, r.live)
	}
	return b.rank, b.rank >= 0
}

// rendezvous returns how many of the pods come before self by the hash of (backend, pod), or -1 when self is not one. Where
// backends share their hardware, id is their group.
func rendezvous(id, self string, pods []string) int {
	if !slices.Contains(pods, self) {
		return -1
	}
	own, rank := weight(id, self), 0
	for _, pod := range pods {
		if w := weight(id, pod); w > own || w == own && pod < self {
			rank++
		}
	}
	return rank
}

func weight(id, pod string) uint64 {
	sum := sha256.Sum256([]byte(id + "\x00" + pod))
	return binary.BigEndian.Uint64(sum[:8])
}

// Adopt takes all records of one peer's newest report, in place of its last one. Only what is newer is adopted. The
// reader's own name is meant for the start: it brings back what this pod knew before a restart.
func (r *Registry) Adopt(name string, records []Record) {
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	next := peerOf(records, now)
	previous := r.peers[name]
	if previous == nil {
		previous = &peer{}
	}
	if name != r.self {
		r.peers[name] = next
	}
	for _, id := range union(next.records, previous.records) {
		b := r.lookup(id)
		before, was := previous.records[id]
		rec, named := next.records[id]
		if b == nil || was && named && before.sameEvidence(&rec) {
			continue // believed only for backends in the reader's own table; refreshed reports cost nothing
		}
		r.refresh(b, now)
		if named {
			r.adopt(b, name, rec, now)
			r.joinCounts(b, before, rec, now)
		}
		if before.State == HalfOpen && rec.State != HalfOpen {
			r.holdProbes(b)
		}
		r.updateActivity(b, now)
	}
}

// peerOf keeps of a report what can be believed.
func peerOf(records []Record, now time.Duration) *peer {
	p := &peer{at: now, records: make(map[table.BackendID]Record, len(records))}
	for _, rec := range records {
		if rec.isValid() {
			p.records[rec.ID] = rec
		}
	}
	return p
}

// Forget drops a peer that is no longer live: its counts add up no more. What was adopted stays.
func (r *Registry) Forget(name string) {
	r.mu.Lock()
	defer r.unlock()
	gone := r.peers[name]
	if gone == nil {
		return
	}
	delete(r.peers, name)
	now := r.clock.Monotonic()
	for id, rec := range gone.records {
		b := r.lookup(id)
		if b == nil {
			continue
		}
		if rec.State == HalfOpen {
			r.holdProbes(b)
		}
		r.updateActivity(b, now)
	}
}

// adoptKnown gives backends that are new in the table what the peers' reports already said of them.
func (r *Registry) adoptKnown(added []*backend, now time.Duration) {
	names := slices.Sorted(maps.Keys(r.peers))
	slices.SortFunc(added, byID)
	for _, b := range added {
		for _, name := range names {
			p := r.peers[name]
			if rec, named := p.records[b.id]; named {
				rec.Remaining = max(0, rec.Remaining-(now-p.at))
				r.adopt(b, name, rec, now)
				r.updateActivity(b, now)
			}
		}
	}
}

// adopt takes what is newer than one's own knowledge: a later good answer, a later epoch; at the same epoch Open beats
// Closed, and of two openings the later retryAt holds.
func (r *Registry) adopt(b *backend, name string, rec Record, now time.Duration) {
	r.adoptGood(b, rec.LastGood)
	if name == r.self && rec.LastGood == b.lastGood {
		b.restore(&rec, now)
	}
	tie := rec.Epoch == b.epoch && rec.Epoch > 0 && rec.State != Closed
	switch {
	case rec.Epoch > b.epoch, tie && !b.isOpen():
		r.adoptState(b, name, rec, now)
	case tie && name != r.self:
		r.mergeTie(b, name, rec, now)
	}
	if name == r.self && rec.Epoch == b.epoch {
		b.extensions = rec.Extensions // as the others have it: they are not to take again what remains
	}
}

// adoptGood hears of a good answer. One that is later than any known clears one's own counts.
func (r *Registry) adoptGood(b *backend, lastGood uint64) {
	if lastGood <= b.lastGood {
		return
	}
	b.lastGood = lastGood
	if b.counts != [classes]count{} {
		b.counts = [classes]count{}
		r.changed(true)
	}
}

// restore brings back the counts that this pod had before a restart.
func (b *backend) restore(rec *Record, now time.Duration) {
	for c := range classes {
		if n := rec.count(c); n > b.counts[c].n {
			b.counts[c] = count{n: n, last: now}
		}
	}
}

// adoptState replaces one's own state by a peer's newer one.
func (r *Registry) adoptState(b *backend, name string, rec Record, now time.Duration) {
	from, over := b.state(), b.open[b.leading()]
	own := b.extendedUnheard(&rec)
	b.epoch, b.origin, b.merged, b.extensions = rec.Epoch, name, nil, 0
	wasOpen := b.isOpen()
	b.clearOpenings()
	if rec.State == Closed {
		if !wasOpen {
			return // nothing but the epoch is new
		}
		b.refusals = 0
		b.listedUntil = now + b.cfg.cooldown[classOf(over.reason)]
	} else {
		b.merged = map[string]int{name: rec.Extensions}
		b.open[classOf(rec.Reason)] = r.adoptable(b, rec, now)
		b.refusals = rec.Refusals
		b.lastEndpoint = cmp.Or(rec.Endpoint, b.lastEndpoint)
	}
	b.toldRetryAt = b.retryAt()
	if b.isOpen() && own.until >= b.toldRetryAt+leastExtension {
		b.openFor(classOf(own.reason), own)
		b.tellExtension()
	}
	b.since = rec.Since
	r.beginGeneration(b, from, over.reason, true)
	b.awaitsCaller = rec.AwaitsCaller && b.isOpen()
}

// extendedUnheard is what one's own late evidence holds b open for, where rec is the next transition: a probe failed at a proxy
// that may not have heard of that. It stands, as it does where the probe was one's own. A good answer in between would be one more
// epoch, or leave the other class of trouble: that of the group's cause closes saturation alone.
func (b *backend) extendedUnheard(rec *Record) opening {
	if !b.isOpen() || b.extensions == 0 || rec.Epoch != b.epoch+1 || classOf(rec.Reason) != b.leading() {
		return opening{}
	}
	return b.open[b.leading()]
}

// mergeTie joins two openings that proxies made at the same epoch, unknown to each other, or one made longer by another proxy's
// late evidence. Each is merged once: what travels as remaining time grows by its journey, and must not go back and forth.
func (r *Registry) mergeTie(b *backend, name string, rec Record, now time.Duration) {
	if extensions, merged := b.merged[name]; merged && extensions == rec.Extensions {
		return
	}
	if b.merged == nil {
		b.merged = map[string]int{}
	}
	b.merged[name] = rec.Extensions
	theirs, own := r.adoptable(b, rec, now), b.open[b.leading()]
	beats := cmp.Or(
		cmp.Compare(theirs.until.Round(time.Second), own.until.Round(time.Second)),
		cmp.Compare(classOf(theirs.reason), classOf(own.reason)),
		cmp.Compare(name, b.origin),
	)
	if beats <= 0 {
		return
	}
	theirs.until = max(theirs.until, own.until)
	b.refusals = max(b.refusals, rec.Refusals)
	b.origin, b.since = name, rec.Since
	b.openFor(classOf(theirs.reason), theirs)
	b.toldRetryAt = b.retryAt()
	r.changed(false)
	r.wakeRun()
}

// adoptable is a peer's opening on one's own clock. What remains of it is bounded by the cooldown and its jitter: a report is
// not to hold a breaker open for longer than its own evidence could.
func (r *Registry) adoptable(b *backend, rec Record, now time.Duration) opening {
	bound := b.cfg.cooldown[classOf(rec.Reason)]
	bound += bound / 10
	if rec.Reason == ReasonRefused || rec.Reason == ReasonQuota || rec.Reason.Saturation() && len(r.members(b)) > 1 {
		bound = MaxRetryAfter // the cooldown is what the backend asked for, or another one of its group, with a cooldown of its own
	}
	return opening{on: true, until: now + min(max(0, rec.Remaining), bound), reason: rec.Reason, message: rec.Message}
}

// joinCounts opens the breaker when a peer's new events and one's own reach the threshold together. Who has no event of its own
// leaves the opening to those who have one: they read the same reports, and their opening is adopted within the second. To open
// here as well would be the same opening once per proxy, each with an urgent write, a transition in metrics and log, and a tie to
// merge for all others. Nor would it be as well founded: where news of a good answer that voids the counts is still on its way, an
// owner of a count has at least seen the backend fail itself. Where all owners are gone, the first bad turn of one's own opens at
// once, because their counts are added for as long as their reports live.
func (r *Registry) joinCounts(b *backend, previous, rec Record, now time.Duration) {
	if rec.LastGood != b.lastGood {
		return
	}
	for c, kind := range [classes]Kind{failing: Failed, saturated: Silent} {
		known := 0
		if previous.LastGood == rec.LastGood {
			known = previous.count(class(c))
		}
		if b.counts[c].n == 0 || b.open[c].on || rec.count(class(c)) <= known {
			continue
		}
		r.openAtThreshold(b, class(c), Result{Kind: kind}, now)
	}
}

// peerProbes says that a peer's report shows its probe at b out, which is not to be joined.
func (r *Registry) peerProbes(b *backend, now time.Duration) bool {
	for _, p := range r.peers {
		rec, named := p.records[b.id]
		if named && rec.State == HalfOpen && rec.Epoch == b.epoch && now < p.at+b.cfg.lease() {
			return true
		}
	}
	return false
}

// Records lists, sorted by id, the breakers that are not Closed, have a count or a pair that is passed over, closed or saw
// a count cleared within the last cooldown, or did so unheard by a live peer.
func (r *Registry) Records() []Record {
	r.mu.Lock()
	defer r.unlock()
	now := r.clock.Monotonic()
	var records []Record
	for _, b := range r.sortedActive() {
		r.refresh(b, now)
		if b.reported = r.listed(b, now); b.reported {
			records = append(records, b.record(now))
		} else {
			r.updateActivity(b, now)
		}
	}
	return records
}

func (r *Registry) listed(b *backend, now time.Duration) bool {
	counted := b.counts[failing].n > 0 || b.counts[saturated].n > 0
	return b.isOpen() || counted || len(b.marks) > 0 || now < b.listedUntil || r.peersAreBehind(b)
}

// peersAreBehind says that a live peer's report still holds what one's own closing or good answer is newer than: it was cut off
// meanwhile, and must be told.
func (r *Registry) peersAreBehind(b *backend) bool {
	if b.epoch == 0 && b.lastGood == 0 {
		return false
	}
	for _, p := range r.peers {
		rec, named := p.records[b.id]
		if !named {
			continue
		}
		stale := rec.LastGood < b.lastGood && rec.Saturations+rec.Failures > 0
		if stale || rec.State != Closed && rec.Epoch < b.epoch {
			return true
		}
	}
	return false
}

func (b *backend) record(now time.Duration) Record {
	rec := Record{
		ID:          b.id,
		State:       b.state(),
		Since:       b.since,
		Epoch:       b.epoch,
		Saturations: b.counts[saturated].n,
		Failures:    b.counts[failing].n,
		LastGood:    b.lastGood,
	}
	if b.isOpen() {
		rec.Endpoint, rec.AwaitsCaller, rec.Refusals, rec.Extensions = b.lastEndpoint, b.awaitsCaller, b.refusals, b.extensions
		leading := b.open[b.leading()]
		rec.Reason, rec.Message, rec.Remaining = leading.reason, leading.message, max(0, leading.until-now)
	}
	for _, endpoint := range slices.Sorted(maps.Keys(b.marks)) {
		m := b.marks[endpoint]
		rec.Endpoints = append(rec.Endpoints, EndpointRecord{endpoint, m.until - now, m.message})
	}
	return rec
}

// isValid says whether a record can be believed at all.
func (rec *Record) isValid() bool {
	known := rec.State == Closed || rec.State == Open || rec.State == HalfOpen
	least := min(rec.Saturations, rec.Failures, rec.Refusals, rec.Extensions)
	most := max(rec.Saturations, rec.Failures, rec.Refusals, rec.Extensions)
	return known && least >= 0 && most <= maxCount && rec.Epoch <= maxCounter && rec.LastGood <= maxCounter
}

// sameEvidence says that nothing but the passing of time tells two records apart.
func (rec *Record) sameEvidence(other *Record) bool {
	return rec.State == other.State && rec.Epoch == other.Epoch && rec.Extensions == other.Extensions && rec.LastGood == other.LastGood &&
		rec.Saturations == other.Saturations && rec.Failures == other.Failures
}

func union(a, b map[table.BackendID]Record) []table.BackendID {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(ids)
	return slices.Compact(ids)
}
