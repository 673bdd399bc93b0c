package plugin

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
)

// planner takes the steps of a plan one after another.
type planner struct {
	question
	route  *v1alpha1.LLMRoute
	entry  *table.Route
	status *v1alpha1.LLMRouteStatus
	notes  []string
}

func firstProblem(problems []compiler.Problem) string {
	if len(problems) == 0 {
		return "its chain is empty"
	}
	return problems[0].String()
}

func (p *planner) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *planner) backendStatus(name string) *v1alpha1.BackendStatus {
	for i := range p.status.Backends {
		if p.status.Backends[i].Name == name {
			return &p.status.Backends[i]
		}
	}
	return nil
}

// leaveOutExcluded takes out what the proxies have not got, as a reference of it does not resolve.
func (p *planner) leaveOutExcluded() {
	p.entry.Chain = slices.DeleteFunc(p.entry.Chain, func(b table.Backend) bool {
		s := p.backendStatus(b.Name)
		if s == nil || s.State != v1alpha1.BackendExcluded {
			return false
		}
		p.note("%s is left out (%s): %s", b.Name, s.Reason, s.Message)
		return true
	})
	for _, b := range p.route.Spec.Chain {
		if p.entry.Backend(b.Name) != nil && p.backendStatus(b.Name) == nil && (b.Auth != nil || b.TLS != nil || b.Service != nil) {
			p.note("whether what %s refers to is there (Secret, ConfigMap, Service) is not known: the status does not say.", b.Name)
		}
	}
}

func (p *planner) checkNames() error {
	for _, name := range p.saturated {
		if p.entry.Backend(name) == nil {
			return fmt.Errorf("--saturated: the route has no backend %q; there are: %s", name, strings.Join(namesOf(p.entry), ", "))
		}
	}
	return nil
}

// answer takes the steps. Each asks the planner for the whole order again, with one more thing to regard.
func (p *planner) answer(model string) *explanation {
	p.judgeStatus()
	bare := *p.entry
	bare.Pins = nil
	in := plan.Input{Route: &bare, Now: p.at}
	e := &explanation{Namespace: p.route.Namespace, Route: p.route.Name, Model: model, At: p.at}
	add := func(name string, made plan.Plan, why []string) {
		e.Steps = append(e.Steps, explainedStep{name, orderOf(made), why})
	}
	add("chain", plan.Make(in), nil)
	in.Hint = p.prefer
	hinted := plan.Make(in)
	add("hint", hinted, p.whyHint(hinted))
	in.Route = p.entry
	add("pins", plan.Make(in), p.whyPins())
	in.PromptTokens = p.promptTokens
	add("windows", plan.Make(in), p.whyWindows())
	in.View = p.view
	final := plan.Make(in)
	add("breakers", final, p.whyBreakers())
	p.conclude(e, final)
	return e
}

func (p *planner) conclude(e *explanation, final plan.Plan) {
	if len(final.Steps) > 0 {
		e.First = final.Steps[0].Backend.Name
	}
	e.Reason, e.Preference, e.AllOpen = string(final.Reason), string(final.Preference), final.AllOpen
	if final.AllOpen {
		at := p.at.Add(final.RetryAfter)
		e.RetryAt = &at
	}
	for _, s := range final.Skipped {
		e.Skipped = append(e.Skipped, skippedBackend{s.Backend.Name, string(s.Why)})
	}
	e.Notes = p.notes
}

func orderOf(made plan.Plan) []string {
	names := make([]string, 0, len(made.Steps))
	for _, s := range made.Steps {
		names = append(names, s.Backend.Name)
	}
	return names
}

func (p *planner) whyHint(made plan.Plan) []string {
	switch made.Preference {
	case plan.PreferenceApplied:
		return []string{fmt.Sprintf("X-Prefer-Backend moves %s to the front", plan.CleanHint(p.prefer))}
	case plan.PreferenceNotInChain:
		return []string{fmt.Sprintf("X-Prefer-Backend names %q, which is not in the chain: nothing changes", plan.CleanHint(p.prefer))}
	case plan.PreferenceIgnored:
		return []string{"the route ignores X-Prefer-Backend (spec.preferHeader)"}
	}
	return nil
}

func (p *planner) whyPins() []string {
	var why []string
	for _, s := range pin.States(p.entry, p.at) {
		line := fmt.Sprintf("%s: %s until %s", s.Pin.Name, effect(v1alpha1.PinMode(s.Pin.Mode), s.Pin.Backend), instant(s.Pin.ExpiresAt))
		if s.Pin.Reason != "" {
			line += " (" + s.Pin.Reason + ")"
		}
		switch {
		case s.NoBackend && s.Pin.Mode == table.PinOnly && s.Active:
			line += "; that backend cannot be used now, so nothing serves"
		case s.NoBackend:
			line += "; that backend cannot be used now, so it does nothing"
		case s.Superseded:
			line += "; a newer pin of mode only overrules it"
		case !s.Active:
			line += "; it starts at " + instant(s.Pin.StartsAt)
		}
		why = append(why, line)
	}
	if rested := pin.Resting(p.entry, p.at); len(rested) > 0 {
		why = append(why, "at rest, so that no proxy probes it: "+strings.Join(rested, ", "))
	}
	return why
}

func (p *planner) whyWindows() []string {
	var why []string
	for i := range p.entry.Chain {
		b := &p.entry.Chain[i]
		if b.ContextWindow > 0 && p.promptTokens > b.ContextWindow {
			why = append(why, fmt.Sprintf("%s has a window of %d tokens, the prompt has %d", b.Name, b.ContextWindow, p.promptTokens))
		}
	}
	return why
}

func (p *planner) whyBreakers() []string {
	var why []string
	for i := range p.entry.Chain {
		b := &p.entry.Chain[i]
		v := p.view(b)
		if v.Usable {
			if s := p.backendStatus(b.Name); s != nil && down(s.State) {
				why = append(why, b.Name+" is open now; its cooldown is over by then, and it is taken to be well again")
			}
			continue
		}
		line := fmt.Sprintf("%s is %s (%s)", b.Name, v.State, v.Reason)
		if v.Remaining > 0 {
			line += " until " + instant(p.at.Add(v.Remaining))
		}
		if v.Message != "" {
			line += ": " + v.Message
		}
		why = append(why, line)
	}
	return why
}

func down(s v1alpha1.BackendState) bool {
	return s == v1alpha1.BackendOpen || s == v1alpha1.BackendHalfOpen
}

// view is what the planner is told of a backend: the supposition of --saturated, else the route's status.
func (p *planner) view(b *table.Backend) breaker.View {
	if reason := p.supposed(b); reason != "" {
		return breaker.View{State: breaker.Open, Reason: reason, Remaining: b.Saturation.Cooldown, Message: "supposed by --saturated"}
	}
	s := p.backendStatus(b.Name)
	if s == nil || !down(s.State) {
		return breaker.View{State: breaker.Closed, Usable: true}
	}
	v := breaker.View{State: breaker.State(s.State), Reason: breaker.Reason(s.Reason), Message: s.Message}
	if s.RetryAt != nil {
		v.Remaining = max(s.RetryAt.Sub(p.at), 0)
		if p.whatIf && v.Remaining == 0 {
			return breaker.View{State: breaker.Closed, Usable: true}
		}
	}
	return v
}

// supposed says why a backend is open by --saturated; saturation of one is that of its whole capacity group.
func (p *planner) supposed(b *table.Backend) breaker.Reason {
	if slices.Contains(p.saturated, b.Name) {
		return breaker.ReasonSaturated
	}
	for _, name := range p.saturated {
		if other := p.entry.Backend(name); b.Group != "" && other.Group == b.Group {
			return breaker.ReasonGroupSaturated
		}
	}
	return breaker.ReasonNone
}

// judgePins notes which pins of the route the proxies do not know as they are written.
func (p *planner) judgePins(pins []v1alpha1.BackendPin) {
	for i := range pins {
		pin := &pins[i]
		if !slices.ContainsFunc(p.entry.Pins, func(known table.Pin) bool { return known.Name == pin.Name }) {
			continue
		}
		active := meta.FindStatusCondition(pin.Status.Conditions, string(v1alpha1.ConditionActive))
		switch {
		case unseen(pin):
			p.note("the manager has not seen the pin %s as it is now, so the proxies may not know of it: is the manager running?", pin.Name)
		case pin.Status.Phase == v1alpha1.PinIneffective && active != nil && active.Reason == string(v1alpha1.ReasonPending):
			p.note("the proxies do not know of the pin %s: %s", pin.Name, active.Message)
		}
	}
}

// judgeStatus notes where the status does not tell what the proxies do.
func (p *planner) judgeStatus() {
	for _, kind := range []v1alpha1.ConditionType{v1alpha1.ConditionAccepted, v1alpha1.ConditionProgrammed} { // the first says why
		if c := meta.FindStatusCondition(p.status.Conditions, string(kind)); c != nil && c.Status == metav1.ConditionFalse {
			p.note("the proxies do not serve the route as written (%s): %s", c.Reason, c.Message)
			break
		}
	}
	switch {
	case p.status.ObservedGeneration == 0:
		p.note("the route has no status yet, so that every breaker is taken to be closed.")
	case p.status.ObservedGeneration < p.route.Generation:
		p.note("the status speaks of generation %d, the spec is at %d.", p.status.ObservedGeneration, p.route.Generation)
	case p.status.State == v1alpha1.RouteUnknown:
		p.note("no proxy reports, so that every breaker is taken to be closed.")
	}
}

// instant is a time as status texts have it, for moment.localize.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }
