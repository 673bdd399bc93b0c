package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/table"
)

// Event tells one transition of the folded state, for people.
type Event struct {
	Type   string // corev1.EventTypeNormal or EventTypeWarning
	Reason v1alpha1.EventReason
	Note   string // what happens now and until when
	// Backend is what the Event is about, within a route; empty where it is the whole object. Whoever records Events must
	// not take two of one reason for one: several backends may open in one moment.
	Backend string
}

// RouteEvents returns what is to be told when the stored status (in.Route.Status) becomes after.
func RouteEvents(in RouteInput, after *v1alpha1.LLMRouteStatus) []Event {
	before := &in.Route.Status
	var events []Event
	events = append(events, conflictEvents(before, after)...)
	for i := range after.Backends {
		b := &after.Backends[i]
		events = append(events, backendEvents(in, backendNamed(before.Backends, b.Name), b, after.Serving)...)
	}
	if was, is := allOpen(before), allOpen(after); is && !was {
		events = append(events, warning(v1alpha1.EventAllBackendsOpen, "every backend that may serve is open; %s until %s", admitted(in.Entry), until(after.RetryAt, in.Now)))
	}
	return events
}

// admitted says what becomes of callers while all backends are open.
func admitted(entry *table.Route) string {
	if entry != nil && entry.WhenAllOpen == table.AllOpenTry {
		return "one request at a time is tried, the others are refused"
	}
	return "callers are refused"
}

func conflictEvents(before, after *v1alpha1.LLMRouteStatus) []Event {
	was := conditionOf(before.Conditions, v1alpha1.ConditionAccepted)
	is := conditionOf(after.Conditions, v1alpha1.ConditionAccepted)
	if is.Reason != string(v1alpha1.ReasonModelConflict) || is.Reason == was.Reason {
		return nil
	}
	return []Event{warning(v1alpha1.EventModelConflict, "%s", is.Message)}
}

func allOpen(s *v1alpha1.LLMRouteStatus) bool {
	return conditionOf(s.Conditions, v1alpha1.ConditionBackendsAvailable).Reason == string(v1alpha1.ReasonAllBackendsOpen)
}

// backendEvents tells what happened to one backend; was may be nil.
func backendEvents(in RouteInput, was, is *v1alpha1.BackendStatus, serving string) []Event {
	if was == nil {
		was = &v1alpha1.BackendStatus{}
	}
	switch {
	case isDown(is.State) && (!isDown(was.State) || was.Reason != is.Reason):
		return about(is.Name, opened(in, is, serving))
	case isDown(was.State) && is.State == v1alpha1.BackendClosed:
		return about(is.Name, normal(v1alpha1.EventBackendRecovered, "%s is well again; %s", is.Name, serves(serving)))
	case is.State == v1alpha1.BackendClosed && is.Reason == string(v1alpha1.BackendMisconfigured) && was.Message != is.Message:
		return about(is.Name, warning(v1alpha1.EventBackendMisconfigured, "%s is %s", is.Name, is.Message))
	default:
		return nil
	}
}

func about(backend string, e Event) []Event {
	e.Backend = backend
	return []Event{e}
}

// opened tells why a backend is passed over, who serves instead and until when.
func opened(in RouteInput, b *v1alpha1.BackendStatus, serving string) Event {
	meanwhile := serves(serving) + " until " + until(b.RetryAt, in.Now)
	switch reason := breaker.Reason(b.Reason); {
	case reason == breaker.ReasonSaturated:
		return warning(v1alpha1.EventBackendSaturated, "%s went quiet%s; %s", b.Name, inARowOf(in, b.Name), meanwhile)
	case reason == breaker.ReasonGroupSaturated:
		return warning(v1alpha1.EventBackendSaturated, "%s shares hardware with a backend that is saturated; %s", b.Name, meanwhile)
	case reason.Saturation():
		return warning(v1alpha1.EventBackendSaturated, "%s says that it has no capacity; %s", b.Name, meanwhile)
	case reason == breaker.ReasonMisconfigured:
		return warning(v1alpha1.EventBackendMisconfigured, "%s refuses the credential or the URL of the route; %s", b.Name, meanwhile)
	default:
		return warning(v1alpha1.EventBackendFailing, "%s is failing%s; %s", b.Name, inARowOf(in, b.Name), meanwhile)
	}
}

func inARowOf(in RouteInput, name string) string {
	b := in.Verdict.Backend(name)
	if b == nil {
		return ""
	}
	if n := in.Fleet.Evidence(b.ID).InARow; n > 0 {
		return fmt.Sprintf(" (%d in a row)", n)
	}
	return ""
}

func serves(serving string) string {
	if serving == "" {
		return "no backend serves"
	}
	return serving + " serves"
}

func until(at *metav1.Time, now time.Time) string {
	if at == nil {
		return "a probe succeeds"
	}
	return timeOfDay(at.Time, now)
}

// PinEvents returns what is to be told when the stored status of a pin becomes after.
func PinEvents(in PinInput, after *v1alpha1.BackendPinStatus) []Event {
	before := &in.Pin.Status
	isActive := func(s *v1alpha1.BackendPinStatus) bool {
		return conditionOf(s.Conditions, v1alpha1.ConditionActive).Status == metav1.ConditionTrue
	}
	because := ""
	if in.Pin.Spec.Reason != "" {
		because = ": " + in.Pin.Spec.Reason
	}
	switch {
	case isActive(after) && !isActive(before):
		return []Event{normal(v1alpha1.EventPinActivated, "%s until %s%s", does(in.Pin, after), timeOfDay(in.Verdict.ExpiresAt, in.Now), because)}
	case after.Phase == v1alpha1.PinExpired && mayEnd(before.Phase):
		return []Event{normal(v1alpha1.EventPinExpired, "the pin of %s has ended%s; %s", in.Pin.Spec.Backend, because, afterPin(in))}
	default:
		return nil
	}
}

// mayEnd says whether a pin in that phase was in force or was still to be. What was made ended, or never accepted, was not.
func mayEnd(p v1alpha1.PinPhase) bool {
	return p == v1alpha1.PinActive || p == v1alpha1.PinIneffective || p == v1alpha1.PinPending
}

// afterPin says what holds on the routes of a pin that has ended.
func afterPin(in PinInput) string {
	for r := range in.routes() {
		for _, s := range pin.States(r, in.Now) {
			if s.Active && s.Pin.Name != in.Pin.Name {
				return "other pins hold on"
			}
		}
	}
	return "the order of the chain holds again"
}

// does says what a pin in force does to which routes.
func does(pin *v1alpha1.BackendPin, s *v1alpha1.BackendPinStatus) string {
	words := map[table.PinMode]string{
		table.PinPrefer: "%s serves first on %s", table.PinAvoid: "%s serves last on %s", table.PinOnly: "%s alone serves on %s",
	}
	format, known := words[table.PinMode(pin.Spec.Mode)]
	if !known {
		format = "%s is pinned on %s"
	}
	return fmt.Sprintf(format, pin.Spec.Backend, s.Scope)
}

// maxNote is how many bytes of a note the API server takes.
const maxNote = 1024

func warning(reason v1alpha1.EventReason, format string, args ...any) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Note: cutBytes(fmt.Sprintf(format, args...), maxNote)}
}

func normal(reason v1alpha1.EventReason, format string, args ...any) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Note: cutBytes(fmt.Sprintf(format, args...), maxNote)}
}
