package status

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of a pin's lists, in status and in its one-line form.
const (
	maxListedRoutes = 64
	maxScopeRoutes  = 3
)

// PinInput is everything that the status of a pin is made of. Nothing in it is changed.
type PinInput struct {
	// Pin as it is stored: its status is where foreign conditions live.
	Pin *v1alpha1.BackendPin
	// Verdict of the compiler on the generation that the status is to speak of. Never nil.
	Verdict *compiler.PinVerdict
	// Routes are the compiled entries of the matched routes that have one, in any order. A pin may match thousands, so they
	// are looked at no further than needed. Nil for none.
	Routes iter.Seq[*table.Route]
	// Behind says that what was compiled cannot be published now: Routes are what proxies go by meanwhile.
	Behind bool
	// Skew is what of the pin is not in force as the served CRD is of another release; nil while that is not known.
	Skew *Skew
	// Now is wall time: pins go by it.
	Now time.Time
}

func (in *PinInput) routes() iter.Seq[*table.Route] {
	if in.Routes == nil {
		return func(func(*table.Route) bool) {}
	}
	return in.Routes
}

// Pin returns the status of a pin.
func Pin(in PinInput) v1alpha1.BackendPinStatus {
	v := in.Verdict
	effective := namesBut(v.MatchedRoutes, v.MissingIn)
	set := conditionSet{all: storable(in.Pin.Status.Conditions, pinConditionTypes, in.Now), generation: v.Generation, now: in.Now}
	set.put(v1alpha1.ConditionAccepted, pinAccepted(in))
	effect := active(in)
	set.put(v1alpha1.ConditionActive, effect)
	set.putSkew(in.Skew)
	return v1alpha1.BackendPinStatus{
		ObservedGeneration:   v.Generation,
		Phase:                phase(v, effect, in.Now),
		StartsAt:             instant(v.StartsAt),
		ExpiresAt:            instant(v.ExpiresAt),
		MatchedRoutes:        int32(min(len(v.MatchedRoutes), 1<<30)),
		Routes:               head(effective, maxListedRoutes),
		RoutesWithoutBackend: head(v.MissingIn, maxListedRoutes),
		Scope:                scope(effective),
		Conditions:           set.all,
	}
}

// phase is where the pin is in its life. One that is in time and changes nothing is not called active.
func phase(v *compiler.PinVerdict, effect finding, now time.Time) v1alpha1.PinPhase {
	if p := PhaseInTime(v, now); p != v1alpha1.PinActive || effect.status == metav1.ConditionTrue {
		return p
	}
	return v1alpha1.PinIneffective
}

// PhaseInTime is where the pin is in its life by the clock alone: it never returns PinIneffective.
func PhaseInTime(v *compiler.PinVerdict, now time.Time) v1alpha1.PinPhase {
	switch {
	case !v.Accepted():
		return v1alpha1.PinRejected
	case now.Before(v.StartsAt):
		return v1alpha1.PinPending
	case now.Before(v.ExpiresAt):
		return v1alpha1.PinActive
	default:
		return v1alpha1.PinExpired
	}
}

// pinAccepted is True when the pin's times and routes make sense.
func pinAccepted(in PinInput) finding {
	if in.Verdict.Accepted() {
		return yes(v1alpha1.ReasonAccepted, "The pin is valid.")
	}
	return no(in.Verdict.Problems[0].Reason, "%s", sentences(in.Verdict.Problems))
}

// active is True while the pin changes what at least one route does.
func active(in PinInput) finding {
	v := in.Verdict
	switch PhaseInTime(v, in.Now) {
	case v1alpha1.PinRejected:
		return no(v1alpha1.ReasonNotAccepted, "The pin is not accepted, so it does nothing.")
	case v1alpha1.PinPending:
		return no(v1alpha1.ReasonPending, "The pin starts at %s.", clock(v.StartsAt))
	case v1alpha1.PinExpired:
		return no(v1alpha1.ReasonExpired, "The pin ended at %s.", clock(v.ExpiresAt))
	}
	backend := in.Pin.Spec.Backend
	switch acts, superseded, crowded := effect(in); {
	case len(v.MatchedRoutes) == 0:
		return no(v1alpha1.ReasonNoSuchRoute, "The pin matches no route of the namespace.%s", absent(v))
	case len(v.MissingIn) == len(v.MatchedRoutes):
		return no(v1alpha1.ReasonNoSuchBackend, "No matched route has the backend %s in its chain.%s", backend, absent(v))
	case acts:
		return yes(v1alpha1.ReasonActive, "The pin is in force until %s.%s", clock(v.ExpiresAt), absent(v))
	case superseded:
		return no(v1alpha1.ReasonSuperseded, "A newer pin of mode Only has the last word on every route of this one.")
	case in.Behind:
		return no(v1alpha1.ReasonPending, "The pin is not in the table yet, as the manager cannot write the table; its log says why.")
	case crowded:
		return no(v1alpha1.ReasonSuperseded, "So many newer pins are on every route of this one that it has no word left; delete some of them.")
	default:
		return no(v1alpha1.ReasonNoSuchBackend, "No matched route can use the backend %s now; see the status of the routes.", backend)
	}
}

// absent tells of routes that the pin names and that do not exist.
func absent(v *compiler.PinVerdict) string {
	if len(v.UnknownRoutes) == 0 {
		return ""
	}
	return " No such route: " + strings.Join(head(v.UnknownRoutes, maxListedRoutes), ", ") + "."
}

// effect says whether the pin acts on at least one route; where it does not, whether a newer Only overrules it on at least one,
// and whether there is one with its backend whose entry has no room for it.
func effect(in PinInput) (acts, superseded, crowded bool) {
	for r := range in.routes() {
		if !slices.ContainsFunc(r.Pins, func(p table.Pin) bool { return p.Name == in.Pin.Name }) {
			crowded = crowded || r.Backend(in.Pin.Spec.Backend) != nil
			continue
		}
		for _, s := range pin.States(r, in.Now) {
			if s.Pin.Name == in.Pin.Name {
				acts, superseded = acts || s.Active, superseded || s.Superseded
			}
		}
		if acts {
			break
		}
	}
	return acts, superseded, crowded
}

// namesBut returns the names that are not among others. Both are sorted.
func namesBut(names, others []string) []string {
	if len(others) == 0 {
		return names
	}
	var rest []string
	for _, name := range names {
		if _, other := slices.BinarySearch(others, name); !other {
			rest = append(rest, name)
		}
	}
	return rest
}

// instant is nil for the zero time.
func instant(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	t := metav1.NewTime(at.UTC())
	return &t
}

func head(names []string, n int) []string {
	if len(names) == 0 {
		return nil
	}
	return slices.Clone(names[:min(n, len(names))])
}

// scope is the list of routes in one line: "default", or "default, fast, slow, +3".
func scope(names []string) string {
	line := strings.Join(head(names, maxScopeRoutes), ", ")
	if rest := len(names) - maxScopeRoutes; rest > 0 {
		count := fmt.Sprintf(", +%d", rest)
		return cut(line, 512-len(count)) + count
	}
	return cut(line, 512)
}

// NextChange is when the status of a pin changes by time alone after now; zero where it never does.
func NextChange(v *compiler.PinVerdict, now time.Time) time.Time {
	switch PhaseInTime(v, now) {
	case v1alpha1.PinPending:
		return v.StartsAt
	case v1alpha1.PinActive:
		return v.ExpiresAt
	default:
		return time.Time{}
	}
}
