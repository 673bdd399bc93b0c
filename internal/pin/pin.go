package pin

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// State is one pin of a route at one instant.
type State struct {
	Pin *table.Pin
	// Active says that the pin acts on the route now.
	Active bool
	// Superseded says that the pin is in time but a newer Only overrules it.
	Superseded bool
	// NoBackend says that the pin's backend is left out of the table. Prefer and Avoid then do nothing; Only lets nothing
	// through.
	NoBackend bool
}

// States tells the state of each of the route's pins at now (wall time), from the oldest to the newest.
func States(route *table.Route, now time.Time) []State {
	if len(route.Pins) == 0 {
		return nil
	}
	only := effectiveOnly(route, now)
	states := make([]State, len(route.Pins))
	for i := range route.Pins {
		p := &route.Pins[i]
		s := State{Pin: p, NoBackend: position(route, p.Backend) < 0}
		if p.ActiveAt(now) && (!s.NoBackend || p.Mode == table.PinOnly) {
			s.Superseded = p.Mode == table.PinOnly && i != only
			s.Active = !s.Superseded
		}
		states[i] = s
	}
	return states
}

// Order applies the active pins to order, which holds positions in the route's chain, and returns the result in order's
// memory. filtered holds the positions that an Only pin took out, as they stood. pinned says that a pin decided which
// backend comes first.
func Order(route *table.Route, now time.Time, order []int) (result, filtered []int, pinned bool) {
	for i := range route.Pins {
		if p := &route.Pins[i]; p.ActiveAt(now) {
			pinned = reorder(route, p, order) || pinned
		}
	}
	only := effectiveOnly(route, now)
	if only < 0 {
		return order, nil, pinned
	}
	keep := position(route, route.Pins[only].Backend)
	for _, at := range order {
		if at != keep {
			filtered = append(filtered, at)
		}
	}
	if keep < 0 { // left out of the table: nothing else means nothing else
		return order[:0], filtered, true
	}
	return append(order[:0], keep), filtered, true
}

// reorder applies one Prefer or Avoid. It says whether that decided which backend comes first.
func reorder(route *table.Route, p *table.Pin, order []int) bool {
	at := slices.Index(order, position(route, p.Backend))
	if at < 0 {
		return false
	}
	switch p.Mode {
	case table.PinPrefer:
		MoveToFront(order, at)
		return true
	case table.PinAvoid:
		moveToBack(order, at)
		return at == 0 && len(order) > 1
	}
	return false
}

// Resting returns the names of the backends that active pins rest at now, in chain order: those that a pin moves behind
// its choice. Avoid rests the named one, Prefer and Only rest all others. As the newest pin has the last word, one that
// a newer pin chooses is not rested by an older one, and a preference that a newer Avoid undoes rests nothing.
func Resting(route *table.Route, now time.Time) []string {
	if len(route.Pins) == 0 {
		return nil
	}
	rested := restingPositions(route, now)
	var names []string
	for i := range route.Chain {
		if rested[i] {
			names = append(names, route.Chain[i].Name)
		}
	}
	return names
}

// restingPositions looks from the newest pin to the oldest, so that what a newer one decided is known.
func restingPositions(route *table.Route, now time.Time) []bool {
	if only := effectiveOnly(route, now); only >= 0 {
		return restingUnder(route, now, only)
	}
	n := len(route.Chain)
	rested, chosen, avoided := make([]bool, n), make([]bool, n), make([]bool, n)
	for i := len(route.Pins) - 1; i >= 0; i-- {
		p := &route.Pins[i]
		at := position(route, p.Backend)
		if at < 0 || !p.ActiveAt(now) {
			continue
		}
		switch {
		case p.Mode == table.PinAvoid:
			rested[at] = rested[at] || !chosen[at]
			avoided[at] = true
		case !avoided[at]:
			for other := range rested {
				rested[other] = rested[other] || other != at && !chosen[other]
			}
			chosen[at] = true
		}
	}
	return rested
}

// restingUnder is for an Only, which filters all others whatever else says. Its choice is rested by a newer Avoid alone.
func restingUnder(route *table.Route, now time.Time, only int) []bool {
	rested := make([]bool, len(route.Chain))
	keep := position(route, route.Pins[only].Backend)
	for other := range rested {
		rested[other] = other != keep
	}
	for i := only + 1; i < len(route.Pins); i++ {
		p := &route.Pins[i]
		if p.Mode == table.PinAvoid && p.ActiveAt(now) && position(route, p.Backend) == keep {
			rested[keep] = true
		}
	}
	return rested
}

// NextEdge returns when a pin of the route starts or ends next, after now (wall time); zero for none, and for a nil route.
func NextEdge(route *table.Route, now time.Time) (next time.Time) {
	if route == nil {
		return next
	}
	for i := range route.Pins {
		for _, edge := range [...]time.Time{route.Pins[i].StartsAt, route.Pins[i].ExpiresAt} {
			if edge.After(now) && (next.IsZero() || edge.Before(next)) {
				next = edge
			}
		}
	}
	return next
}

// effectiveOnly returns the index of the newest active Only, or -1. Its backend may be left out of the table: the compiler
// passes on only pins whose backend the route names.
func effectiveOnly(route *table.Route, now time.Time) int {
	for i := len(route.Pins) - 1; i >= 0; i-- {
		p := &route.Pins[i]
		if p.Mode == table.PinOnly && p.ActiveAt(now) {
			return i
		}
	}
	return -1
}

func position(route *table.Route, backend string) int {
	for i := range route.Chain {
		if route.Chain[i].Name == backend {
			return i
		}
	}
	return -1
}

// MoveToFront moves the element at index at to the front and keeps the order of the others.
func MoveToFront(order []int, at int) {
	moved := order[at]
	copy(order[1:at+1], order[:at])
	order[0] = moved
}

func moveToBack(order []int, at int) {
	moved := order[at]
	copy(order[at:], order[at+1:])
	order[len(order)-1] = moved
}
