package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// finding is what one check of a condition comes to.
type finding struct {
	status  metav1.ConditionStatus
	reason  v1alpha1.ConditionReason
	message string
}

func yes(reason v1alpha1.ConditionReason, format string, args ...any) finding {
	return finding{metav1.ConditionTrue, reason, fmt.Sprintf(format, args...)}
}

func no(reason v1alpha1.ConditionReason, format string, args ...any) finding {
	return finding{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason v1alpha1.ConditionReason, format string, args ...any) finding {
	return finding{metav1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// routeConditions returns the stored conditions with ours brought up to date; those of others stay as they are.
func routeConditions(f *facts) []metav1.Condition {
	set := conditionSet{all: storable(f.Route.Status.Conditions, routeConditionTypes, f.Now), generation: f.Verdict.Generation, now: f.Now}
	set.put(v1alpha1.ConditionAccepted, accepted(f))
	set.put(v1alpha1.ConditionResolvedRefs, resolvedRefs(f))
	set.put(v1alpha1.ConditionProgrammed, programmed(f))
	set.put(v1alpha1.ConditionBackendsAvailable, backendsAvailable(f))
	set.put(v1alpha1.ConditionReady, ready(set.all))
	set.putSkew(f.Skew)
	return set.all
}

// The conditions that are ours.
var (
	routeConditionTypes = []v1alpha1.ConditionType{
		v1alpha1.ConditionAccepted, v1alpha1.ConditionResolvedRefs, v1alpha1.ConditionProgrammed,
		v1alpha1.ConditionBackendsAvailable, v1alpha1.ConditionReady, v1alpha1.ConditionSchemaSkew,
	}
	pinConditionTypes = []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionActive, v1alpha1.ConditionSchemaSkew}
)

// maxConditions is how many conditions a status holds.
const maxConditions = 16

// clockSkew is how far the clocks of two managers may lie apart: a time of ours that is further ahead was not set by one.
const clockSkew = 10 * time.Minute

// storable copies the stored conditions, apart from those of others that the schema refuses or that leave no room for ours:
// a status with one of them would be refused whole. One of ours from the future is set anew.
func storable(stored []metav1.Condition, ours []v1alpha1.ConditionType, now time.Time) []metav1.Condition {
	room := maxConditions - len(ours)
	var kept []metav1.Condition
	for _, c := range stored {
		mine := slices.Contains(ours, v1alpha1.ConditionType(c.Type))
		switch {
		case !isWhole(&c):
		case mine && c.LastTransitionTime.After(now.Add(clockSkew)):
		case !mine && room == 0:
		default:
			kept = append(kept, c)
			if !mine {
				room--
			}
		}
	}
	return kept
}

// isWhole says whether the schema takes a condition.
func isWhole(c *metav1.Condition) bool {
	known := c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse || c.Status == metav1.ConditionUnknown
	return known && c.Type != "" && c.Reason != "" && !c.LastTransitionTime.IsZero()
}

// conditionSet writes findings into a list of conditions.
type conditionSet struct {
	all        []metav1.Condition
	generation int64
	now        time.Time
}

// put changes lastTransitionTime only where the status flips.
func (s *conditionSet) put(kind v1alpha1.ConditionType, f finding) {
	meta.SetStatusCondition(&s.all, metav1.Condition{
		Type: string(kind), Status: f.status, Reason: string(f.reason), Message: cut(f.message, 2048),
		ObservedGeneration: s.generation, LastTransitionTime: metav1.NewTime(s.now.UTC().Truncate(time.Second)),
	})
}

// conditionOf returns a condition of the list, or one whose status is Unknown.
func conditionOf(all []metav1.Condition, kind v1alpha1.ConditionType) metav1.Condition {
	if c := meta.FindStatusCondition(all, string(kind)); c != nil {
		return *c
	}
	return metav1.Condition{Type: string(kind), Status: metav1.ConditionUnknown}
}

// accepted is True when the spec makes sense and no better claim holds the model. It names what other routes have a say in.
func accepted(f *facts) finding {
	problems := f.Verdict.ProblemsOf(v1alpha1.ConditionAccepted)
	if len(problems) == 0 {
		return yes(v1alpha1.ReasonAccepted, "The route is valid and holds its model.%s", lowered(f.Verdict.Backends))
	}
	return no(problems[0].Reason, "%s", sentences(problems))
}

// lowered says which limits are smaller than the route's own, because another route names the same backend with less.
func lowered(backends []compiler.BackendVerdict) string {
	var told strings.Builder
	for i := range backends {
		for _, l := range backends[i].Lowered {
			fmt.Fprintf(&told, " Of backend %q, %s is %s, as LLMRoute %s has it for the same backend.", backends[i].Name, l.Field, l.Value, l.Route)
		}
	}
	return told.String()
}

// resolvedRefs is True when every Secret, ConfigMap and Service that the route names is there and usable.
func resolvedRefs(f *facts) finding {
	problems := f.Verdict.ProblemsOf(v1alpha1.ConditionResolvedRefs)
	if len(problems) == 0 {
		return yes(v1alpha1.ReasonResolvedRefs, "All references resolve.")
	}
	usable, reason := 0, problems[0].Reason
	for i := range f.Verdict.Backends {
		if f.Verdict.Backends[i].Usable {
			usable++
		}
	}
	if usable == 0 {
		return no(reason, "%s", sentences(problems))
	}
	if slices.ContainsFunc(problems, func(p compiler.Problem) bool { return p.Reason != reason }) {
		reason = v1alpha1.ReasonPartiallyResolved
	}
	return no(reason, "PartiallyResolved: %d of %d backends can serve. %s", usable, len(f.Verdict.Backends), sentences(problems))
}

// programmed is True when every live proxy serves the generation.
func programmed(f *facts) finding {
	switch {
	case f.Entry != nil && f.full():
		return no(v1alpha1.ReasonTableFull, "Generation %d does not fit into the table; an earlier version of the route is served on.", f.Verdict.Generation)
	case !f.Verdict.Programmable && !f.Verdict.Accepted():
		return no(v1alpha1.ReasonNotAccepted, "The route is not accepted, so nothing of it is served.")
	case f.live == 0:
		return unknown(v1alpha1.ReasonNoProxies, "No live proxy reports.")
	case f.serving == f.live:
		return yes(v1alpha1.ReasonProgrammed, "Every live proxy serves generation %d.", f.Verdict.Generation)
	case f.Fleet.Foreign() > 0:
		return no(v1alpha1.ReasonSchemaUnknown, "%d of %d live proxies serve generation %d; of a release with another schema, so that they may keep what they have: %d.",
			f.serving, f.live, f.Verdict.Generation, f.Fleet.Foreign())
	default:
		return no(v1alpha1.ReasonPending, "%d of %d live proxies serve generation %d.", f.serving, f.live, f.Verdict.Generation)
	}
}

// backendsAvailable is False only when all backends are open, or none is usable.
func backendsAvailable(f *facts) finding {
	state := f.state()
	switch {
	case f.Entry == nil && f.Verdict.Programmable:
		return no(v1alpha1.ReasonPending, "The route is not in the table yet; where it stays so, the manager's log says why.")
	case f.Entry == nil || len(f.Entry.Chain) == 0:
		return no(v1alpha1.ReasonNoUsableBackend, "No backend of the chain can be used; see Accepted and ResolvedRefs.")
	case state == v1alpha1.RouteUnknown:
		return unknown(v1alpha1.ReasonNoProxies, "No live proxy reports.")
	case len(f.candidates) == 0:
		return no(v1alpha1.ReasonNoUsableBackend, "A pin of mode Only allows a backend that is left out, and nothing else; see ResolvedRefs, or delete the pin.")
	case state == v1alpha1.RouteDown:
		return no(v1alpha1.ReasonAllBackendsOpen, "Every backend that could serve is passed over until it is tried again.")
	default:
		return yes(v1alpha1.ReasonBackendsAvailable, "At least one backend serves.")
	}
}

// ready is computed: Accepted and Programmed and BackendsAvailable. It carries the reason of the first that holds it back.
func ready(all []metav1.Condition) finding {
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed, v1alpha1.ConditionBackendsAvailable} {
		c := conditionOf(all, kind)
		if c.Status != metav1.ConditionTrue {
			return finding{c.Status, v1alpha1.ConditionReason(c.Reason), fmt.Sprintf("%s is %s: %s", kind, c.Status, c.Message)}
		}
	}
	return yes(v1alpha1.ReasonReady, "The route serves.")
}

// maxSentences bounds how many problems one message tells; the rest is a count.
const maxSentences = 8

func sentences(problems []compiler.Problem) string {
	var told []string
	for i, p := range problems {
		if i == maxSentences {
			told = append(told, fmt.Sprintf("And %d more.", len(problems)-i))
			break
		}
		if p.Field != "" {
			told = append(told, p.Field+": "+p.Message)
			continue
		}
		told = append(told, p.Message)
	}
	return strings.Join(told, " ")
}
