package compiler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of the schema.
const (
	maxPinReason = 256
	maxPinRoutes = 16
)

// maxPinsPerRoute bounds what a route's entry holds: a selector reaches every route of a namespace, so without it pins times
// routes would be the size of the table. Of more, those count that have most to say now: see compareUrgency.
const maxPinsPerRoute = 32

// clockSkew is how far a proxy's clock may be behind ours. A pin ends by the proxies' clocks, so that long it stays in the table
// after its end, unless it was deleted.
const clockSkew = 5 * time.Minute

// lastYear is the last one that a time can be written with.
const lastYear = 9999

// pinDraft is a pin on its way into the entries of its routes.
type pinDraft struct {
	reader  *reader
	spec    *v1alpha1.BackendPinSpec
	created time.Time // zero where it is not known: files, and objects that no API server has seen
	verdict *PinVerdict
	matched []*routeDraft // those with the backend in their chain
	into    []*routeDraft // those of them that have room for it
	lingers time.Duration // how long it stays in the table after its end
}

// selectorKey identifies what a pin with a selector matches. Many pins may say the same, so it is found once.
type selectorKey struct{ selector, backend string }

// pinRules are what a pin must keep to.
var pinRules = []func(*pinDraft){
	checkBackend,
	checkMode,
	readTimes,
	checkTimes,
	checkReason,
}

// applyPins makes the verdict on every pin and writes those that have not ended into the entries of their routes, from
// the oldest to the newest. The routes are sorted by name.
func (n *namespace) applyPins(r *reader, now time.Time, routes []*routeDraft, byName map[string]*routeDraft) {
	var drafts []*pinDraft
	known := map[selectorKey]*pinDraft{}
	names := map[string]bool{}
	for _, object := range n.pinsByAge(r.Options.Standalone) {
		if names[object.Name] {
			continue
		}
		names[object.Name] = true
		p := r.readPin(object)
		p.match(known, routes, byName)
		drafts = append(drafts, p)
		n.pinVerdicts = append(n.pinVerdicts, p.verdict)
	}
	n.makeRoom(drafts, now)
	for _, p := range drafts {
		p.apply()
	}
	for _, u := range n.undecodable {
		if u.Kind == KindPin && !names[u.Key.Name] {
			names[u.Key.Name] = true
			n.pinVerdicts = append(n.pinVerdicts, undecodablePin(u))
		}
	}
	slices.SortFunc(n.pinVerdicts, func(a, b *PinVerdict) int { return cmp.Compare(a.Key.Name, b.Key.Name) })
	n.noteTimes(drafts, now)
}

func undecodablePin(u Undecodable) *PinVerdict {
	return &PinVerdict{Key: u.Key, UID: u.UID, Generation: u.Generation, Problems: []Problem{{
		Condition: v1alpha1.ConditionAccepted, Reason: v1alpha1.ReasonInvalidSpec, Message: undecodableMessage(u),
	}}}
}

// noteTimes finds for how long the same comes of the pins: until one of them starts, ends, or leaves the table.
func (n *namespace) noteTimes(pins []*pinDraft, now time.Time) {
	for _, p := range pins {
		n.edges = append(n.edges, p.verdict.StartsAt, p.verdict.ExpiresAt)
		for _, at := range []time.Time{p.verdict.StartsAt, p.verdict.ExpiresAt, p.verdict.ExpiresAt.Add(p.lingers)} {
			switch {
			case !at.After(now) && at.After(n.since):
				n.since = at
			case at.After(now) && (n.until.IsZero() || at.Before(n.until)):
				n.until = at
			}
		}
	}
	slices.SortFunc(n.edges, time.Time.Compare)
}

// pinsByAge returns the pins from the oldest to the newest: by creation time, then name; standalone in the order of the Snapshot.
func (n *namespace) pinsByAge(standalone bool) []*v1alpha1.BackendPin {
	if standalone {
		return n.pins
	}
	pins := slices.Clone(n.pins)
	slices.SortStableFunc(pins, func(a, b *v1alpha1.BackendPin) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pins
}

func (r *reader) readPin(object *v1alpha1.BackendPin) *pinDraft {
	p := &pinDraft{
		reader: r,
		spec:   &object.Spec,
		verdict: &PinVerdict{
			Key:        types.NamespacedName{Namespace: object.Namespace, Name: object.Name},
			UID:        object.UID,
			Generation: object.Generation,
		},
	}
	if r.Options.Standalone {
		p.verdict.Generation = 0
	} else {
		p.created = encodable(object.CreationTimestamp.UTC())
	}
	for _, rule := range pinRules {
		rule(p)
	}
	p.endIfDeleted(object)
	return p
}

// endIfDeleted ends a pin that has been deleted, at once. Something else, such as a foreground deletion, may keep the object for a while.
func (p *pinDraft) endIfDeleted(object *v1alpha1.BackendPin) {
	p.lingers = clockSkew
	if deleted := object.DeletionTimestamp; deleted != nil && deleted.Time.Before(p.verdict.ExpiresAt) {
		p.verdict.ExpiresAt, p.lingers = encodable(deleted.UTC()), 0
	}
}

func (p *pinDraft) refuse(reason v1alpha1.ConditionReason, field, message string) {
	p.verdict.Problems = append(p.verdict.Problems,
		Problem{Condition: v1alpha1.ConditionAccepted, Reason: reason, Field: field, Message: message})
}

func (p *pinDraft) reading() *reader { return p.reader }

func checkBackend(p *pinDraft) {
	if !isLabel(p.spec.Backend) {
		p.refuse(v1alpha1.ReasonInvalidSpec, "spec.backend", "The backend must be the name of a backend in the routes' chains.")
	}
}

func checkMode(p *pinDraft) {
	choice[v1alpha1.PinMode, table.PinMode](p, "spec.mode", p.spec.Mode, v1alpha1.PinPrefer, v1alpha1.PinAvoid, v1alpha1.PinOnly)
}

func checkReason(p *pinDraft) {
	if len([]rune(p.spec.Reason)) > maxPinReason {
		p.refuse(v1alpha1.ReasonInvalidSpec, "spec.reason", fmt.Sprintf("The reason must have at most %d characters.", maxPinReason))
	}
}

// readTimes makes the times absolute.
func readTimes(p *pinDraft) {
	s, v := p.spec, p.verdict
	v.StartsAt = p.created
	if s.StartsAt != nil && !s.StartsAt.IsZero() {
		v.StartsAt = s.StartsAt.UTC()
	}
	hasExpiry := s.ExpiresAt != nil && !s.ExpiresAt.IsZero()
	switch hasDuration := s.Duration != ""; {
	case hasDuration == hasExpiry:
		p.refuse(v1alpha1.ReasonInvalidTimes, "spec.expiresAt", "Set exactly one of duration and expiresAt: a pin always ends.")
	case hasExpiry:
		v.ExpiresAt = s.ExpiresAt.UTC()
	case v.StartsAt.IsZero():
		p.refuse(v1alpha1.ReasonInvalidTimes, "spec.duration",
			"A pin from a file has no creation time that its duration could count from; set startsAt beside it, or expiresAt instead.")
	default:
		if length := duration(p, span{"spec.duration", s.Duration, time.Millisecond, unbounded}); length > 0 {
			v.ExpiresAt = v.StartsAt.Add(length)
		}
	}
}

// checkTimes looks at the times as a whole. A pin that cannot be in force has none.
func checkTimes(p *pinDraft) {
	if p.verdict.ExpiresAt.IsZero() {
		p.verdict.StartsAt = time.Time{} // readTimes has said why
		return
	}
	reason, field, message := p.faultInTimes()
	if reason == "" {
		return
	}
	p.refuse(reason, field, message)
	p.verdict.StartsAt, p.verdict.ExpiresAt = time.Time{}, time.Time{}
}

func (p *pinDraft) faultInTimes() (reason v1alpha1.ConditionReason, field, message string) {
	start, end := p.verdict.StartsAt, p.verdict.ExpiresAt
	explicit := p.spec.StartsAt != nil && !p.spec.StartsAt.IsZero()
	switch {
	case start.Year() < 1 || start.Year() > lastYear || end.Year() < 1 || end.Year() > lastYear:
		return v1alpha1.ReasonInvalidTimes, "spec.startsAt", fmt.Sprintf("The pin starts or ends outside of the years 1 to %d.", lastYear)
	case explicit && !end.After(start):
		return v1alpha1.ReasonInvalidTimes, "spec.expiresAt", "The pin ends before it starts; expiresAt must be later than startsAt."
	case !start.IsZero() && end.Sub(start) > p.reader.Options.MaxPin:
		return v1alpha1.ReasonTooLong, p.endField(), fmt.Sprintf("The pin may last at most %s from its start; shorten it, or start it later.",
			v1alpha1.FormatDuration(p.reader.Options.MaxPin))
	}
	return "", "", ""
}

func (p *pinDraft) endField() string {
	if p.spec.Duration != "" {
		return "spec.duration"
	}
	return "spec.expiresAt"
}

// match finds the routes of the pin among those of its namespace, which are sorted by name. known is what was found for other
// pins.
func (p *pinDraft) match(known map[selectorKey]*pinDraft, routes []*routeDraft, byName map[string]*routeDraft) {
	r := &p.spec.Routes
	switch hasNames, hasSelector := len(r.Names) > 0, r.Selector != nil; {
	case hasNames == hasSelector:
		p.refuse(v1alpha1.ReasonInvalidSpec, "spec.routes", "Set exactly one of names and selector.")
	case hasNames:
		p.matchNames(byName)
	default:
		p.matchSelector(known, routes)
	}
}

func (p *pinDraft) matchNames(byName map[string]*routeDraft) {
	names := slices.Sorted(slices.Values(p.spec.Routes.Names))
	if len(names) > maxPinRoutes {
		p.refuse(v1alpha1.ReasonInvalidSpec, "spec.routes.names", fmt.Sprintf("The list has more than %d names; use a selector.", maxPinRoutes))
		return
	}
	if unique := slices.Compact(slices.Clone(names)); len(unique) < len(names) {
		p.refuse(v1alpha1.ReasonInvalidSpec, "spec.routes.names", "The list has a name twice.")
		return
	}
	for _, name := range names {
		if d := byName[name]; d != nil {
			p.matches(d)
		} else {
			p.verdict.UnknownRoutes = append(p.verdict.UnknownRoutes, name)
		}
	}
}

func (p *pinDraft) matchSelector(known map[selectorKey]*pinDraft, routes []*routeDraft) {
	selector, err := p.spec.Routes.Selector.Selector()
	if err != nil {
		p.refuse(v1alpha1.ReasonInvalidSelector, "spec.routes.selector", "The selector cannot be read; check its keys, operators and values.")
		return
	}
	same := selectorKey{selector.String(), p.spec.Backend}
	if other := known[same]; other != nil {
		p.matched, p.verdict.MatchedRoutes, p.verdict.MissingIn = other.matched, other.verdict.MatchedRoutes, other.verdict.MissingIn
		return
	}
	known[same] = p
	for _, d := range routes {
		if selector.Matches(d.labels) {
			p.matches(d)
		}
	}
}

func (p *pinDraft) matches(d *routeDraft) {
	p.verdict.MatchedRoutes = append(p.verdict.MatchedRoutes, d.verdict.Key.Name)
	if d.verdict.Backend(p.spec.Backend) != nil {
		p.matched = append(p.matched, d)
	} else {
		p.verdict.MissingIn = append(p.verdict.MissingIn, d.verdict.Key.Name)
	}
}

// makeRoom decides into which entries the pins go, which come from the oldest to the newest. Where there is no room for all,
// another instant may decide otherwise, see Result.Next.
func (n *namespace) makeRoom(pins []*pinDraft, now time.Time) {
	inTable := slices.DeleteFunc(slices.Clone(pins), func(p *pinDraft) bool { return !p.inTable(now) })
	slices.Reverse(inTable)
	slices.SortStableFunc(inTable, func(a, b *pinDraft) int { return compareUrgency(a.verdict, b.verdict, now) })
	crowded := false
	for _, p := range inTable {
		crowded = p.takeRoom() || crowded
	}
	for _, p := range inTable {
		for _, at := range []time.Time{p.verdict.StartsAt, p.verdict.ExpiresAt} {
			if crowded && at.After(now) && (n.next.IsZero() || at.Before(n.next)) {
				n.next = at
			}
		}
	}
}

// inTable says whether the pin is accepted and has not ended by everybody's clock.
func (p *pinDraft) inTable(now time.Time) bool {
	return p.verdict.Accepted() && now.Before(p.verdict.ExpiresAt.Add(p.lingers))
}

// compareUrgency puts the pins that are in force first, then those that are to come, the soonest first, then those that have
// ended.
func compareUrgency(a, b *PinVerdict, now time.Time) int {
	class := func(v *PinVerdict) int {
		switch {
		case !now.Before(v.ExpiresAt):
			return 2
		case now.Before(v.StartsAt):
			return 1
		default:
			return 0
		}
	}
	if class(a) == 1 && class(b) == 1 {
		return a.StartsAt.Compare(b.StartsAt)
	}
	return cmp.Compare(class(a), class(b))
}

// takeRoom takes a place in the entries of the pin's routes and says whether there was none in one of them.
func (p *pinDraft) takeRoom() (crowded bool) {
	for _, d := range p.matched {
		switch {
		case d.entry == nil:
		case d.pins == maxPinsPerRoute:
			crowded = true
		default:
			d.pins++
			p.into = append(p.into, d)
		}
	}
	return crowded
}

// apply writes the pin into the entries that have room for it.
func (p *pinDraft) apply() {
	for _, d := range p.into {
		d.own()
		d.entry.Pins = append(d.entry.Pins, table.Pin{
			Name:      p.verdict.Key.Name,
			Backend:   p.spec.Backend,
			Mode:      table.PinMode(p.spec.Mode),
			StartsAt:  p.verdict.StartsAt,
			ExpiresAt: p.verdict.ExpiresAt,
			Reason:    strings.ToValidUTF8(p.spec.Reason, ""),
		})
	}
}
