package plugin

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// statusView prints the status of routes for people: one table with a line for each backend, then a line for each thing
// that needs a sentence.
type statusView struct {
	moment
	namespaces bool // more than one
}

func (v statusView) print(w io.Writer, routes []v1alpha1.LLMRoute) error {
	t := grid{header: []string{"ROUTE", "STATE", "SERVING", "PROXIES", "BACKEND", "BREAKER", "SINCE", "UNTIL", "SEEN BY", "WHY"}}
	if v.namespaces {
		t.header = append([]string{"NAMESPACE"}, t.header...)
	}
	if v.full {
		t.header = append(t.header, "MODEL")
	}
	var notes []string
	for i := range routes {
		v.addRoute(&t, &routes[i])
		notes = append(notes, v.notes(&routes[i])...)
	}
	if err := t.print(w); err != nil {
		return err
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, note := range notes {
		fmt.Fprintln(w, oneLine(note))
	}
	return nil
}

// addRoute adds a line for each backend; the route itself stands on the first.
func (v statusView) addRoute(t *grid, r *v1alpha1.LLMRoute) {
	s := &r.Status
	lead := []string{r.Name, text(string(s.State)), text(s.Serving), text(s.Proxies)}
	blank := []string{"", "", "", ""}
	if v.namespaces {
		lead, blank = append([]string{r.Namespace}, lead...), append(blank, "")
	}
	backends := s.Backends
	if len(backends) == 0 { // nothing is known yet but the names
		for _, b := range r.Spec.Chain {
			backends = append(backends, v1alpha1.BackendStatus{Name: b.Name})
		}
	}
	for _, b := range backends {
		cells := append(lead[:len(lead):len(lead)], b.Name, text(string(b.State)), v.of(b.Since), v.until(&b), text(b.Proxies), v.why(&b))
		if v.full {
			cells = append(cells, s.Model)
		}
		t.add(cells...)
		lead = blank
	}
}

// until is when the backend is tried again. Once that has passed a probe is out or due.
func (v statusView) until(b *v1alpha1.BackendStatus) string {
	if b.State == v1alpha1.BackendOpen && b.RetryAt != nil && !v.full && !b.RetryAt.After(v.now) {
		return v.clock(b.RetryAt.Time) + " (being tried)"
	}
	return v.of(b.RetryAt)
}

func (v statusView) why(b *v1alpha1.BackendStatus) string {
	switch {
	case b.Reason == "" && b.Message == "" && !v.full:
		return ""
	case b.Message == "":
		return text(b.Reason)
	case b.Reason == "":
		return v.localize(b.Message)
	default:
		return b.Reason + ": " + v.localize(b.Message)
	}
}

// notes are what a table has no place for: pins, and conditions that are not as they should be.
func (v statusView) notes(r *v1alpha1.LLMRoute) []string {
	name := r.Name
	if v.namespaces {
		name = r.Namespace + "/" + name
	}
	var notes []string
	if r.Status.Pinned != "" {
		notes = append(notes, fmt.Sprintf("%s is pinned: %s", name, v.localize(r.Status.Pinned)))
	}
	switch {
	case len(r.Status.Conditions) == 0:
		notes = append(notes, name+" has no status yet: is the manager running?")
	case r.Status.ObservedGeneration < r.Generation:
		notes = append(notes, fmt.Sprintf("%s was changed: its status speaks of generation %d, the spec is at %d.",
			name, r.Status.ObservedGeneration, r.Generation))
	}
	for _, c := range r.Status.Conditions {
		if c.Status != metav1.ConditionTrue && c.Type != string(v1alpha1.ConditionReady) { // Ready only repeats another one
			notes = append(notes, fmt.Sprintf("%s: %s is %s (%s): %s", name, c.Type, c.Status, c.Reason, v.localize(c.Message)))
		}
	}
	return notes
}

// text stands for what may be empty.
func text(s string) string {
	if s == "" {
		return none
	}
	return s
}
