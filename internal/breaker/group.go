package breaker

import (
	"slices"
	"time"
)

// members lists the backends on the same hardware, the backend itself included, sorted by id.
func (r *Registry) members(b *backend) []*backend {
	if m := r.groups[b.cfg.backend.Group]; len(m) > 0 {
		return m
	}
	return []*backend{b}
}

// saturateGroup opens the others of the group after b became saturated: they sit on the same hardware.
func (r *Registry) saturateGroup(b *backend) {
	cause := b.open[saturated]
	for _, m := range r.members(b) {
		if m != b {
			r.saturateMember(m, cause)
		}
	}
}

// extendGroup holds the others of the group for as long as b, where saturation holds them. It opens none: a good answer has closed
// that since.
func (r *Registry) extendGroup(b *backend) {
	until := b.open[saturated].until
	for _, m := range r.members(b) {
		if m.open[saturated].on && m.open[saturated].until < until {
			m.open[saturated].until = until
			m.tellExtension()
		}
	}
}

// saturateMember opens m because of what holds another one of its group open.
func (r *Registry) saturateMember(m *backend, cause opening) {
	from := m.state()
	cause.reason = ReasonGroupSaturated
	if own := m.open[saturated]; own.on {
		cause.reason, cause.message, cause.until = own.reason, own.message, max(cause.until, own.until)
		if cause == own {
			return
		}
	}
	m.openFor(saturated, cause)
	r.recordTransition(m, from)
}

// joinGroups brings backends that a table has put into groups to where these stand, and the groups to where the backends do.
func (r *Registry) joinGroups(moved []*backend) {
	slices.SortFunc(moved, byID)
	for _, b := range moved {
		if b.causesGroup() {
			r.saturateGroup(b)
			continue
		}
		for _, m := range r.members(b) {
			if m.causesGroup() && !b.open[saturated].on {
				r.saturateMember(b, m.open[saturated])
			}
		}
	}
}

// causesGroup says that b's own evidence of saturation holds it open, and so its group.
func (b *backend) causesGroup() bool {
	return b.open[saturated].on && b.open[saturated].reason != ReasonGroupSaturated
}

// closeGroup closes what saturation holds open in b's group: b caused it and is well again. The members' own counts and
// their own failures stay.
func (r *Registry) closeGroup(b *backend) {
	for _, m := range r.members(b) {
		if m == b || !m.open[saturated].on {
			continue
		}
		from, over := m.state(), m.open[saturated]
		m.open[saturated] = opening{}
		m.refusals = 0
		if m.isOpen() {
			r.recordTransition(m, from)
			continue
		}
		r.recordClosing(m, from, over)
	}
}

// groupCause returns the member whose own evidence holds the group open. nil: none does, or b itself is one.
func (r *Registry) groupCause(b *backend) *backend {
	if b.open[saturated].reason != ReasonGroupSaturated {
		return nil
	}
	for _, m := range r.members(b) {
		if m.causesGroup() {
			return m
		}
	}
	return nil
}

// probeDue is when b may be probed next: when its cooldown is over. Where another backend caused the group's opening, that one is
// asked first, and b waits for another cooldown. It waits no longer than that while nothing shows that the hardware is still busy:
// the cause may wait for callers that never come, be rested by a pin, or fail for reasons of its own by now.
func (r *Registry) probeDue(b *backend) time.Duration {
	if r.groupCause(b) == nil {
		return b.retryAt()
	}
	return b.retryAt() + b.cfg.cooldown[saturated]
}

// groupProbed says whether a probe is out in b's group, be it a peer's: as its report shows, which ends with the peer.
func (r *Registry) groupProbed(b *backend, now time.Duration) bool {
	for _, m := range r.members(b) {
		if m.probe != nil && now < m.probe.expires || r.peerProbes(m, now) {
			return true
		}
	}
	return false
}

// probeKey is what the proxies are ranked by as probers of b: its group where it has one, so that one proxy's probes of the same
// hardware come one after the other.
func (r *Registry) probeKey(b *backend) string {
	if group := b.cfg.backend.Group; len(r.groups[group]) > 0 {
		return group
	}
	return string(b.id)
}
