package plugin

import (
	"fmt"
	"io"
	"strings"
)

// titles of the steps for people.
var titles = map[string]string{
	"chain": "Chain", "hint": "Caller's hint", "pins": "Pins", "windows": "Context windows", "breakers": "Breakers",
}

// print writes the explanation for people: each step, and under it why.
func (e *explanation) print(w io.Writer, m moment) error {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(oneLine(m.localize(fmt.Sprintf(format, args...))) + "\n")
	}
	line("%s/%s serves the model %q. At %s:", e.Namespace, e.Route, e.Model, m.clockWithZone())
	b.WriteString("\n")
	for i, step := range e.Steps {
		line("%d. %-16s %s", i+1, titles[step.Name], listOr(step.Order, "nothing is left"))
		for _, why := range step.Why {
			line("     %s", why)
		}
	}
	b.WriteString("\n")
	line("%s", e.conclusion(m))
	for _, note := range e.Notes {
		line("Note: %s", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (m moment) clockWithZone() string {
	if m.full {
		return m.at(m.now)
	}
	return m.now.In(m.zone).Format("2006-01-02 15:04:05 MST")
}

// conclusion is the answer in a sentence or two.
func (e *explanation) conclusion(m moment) string {
	switch {
	case e.AllOpen && e.First == "":
		return fmt.Sprintf("Every backend is open, and the route turns requests away (whenAllOpen: Reject) until %s.", m.at(*e.RetryAt))
	case e.AllOpen:
		return fmt.Sprintf("Every backend is open: one request at a time is let through to %s, the others get an error with Retry-After (%s).",
			e.First, m.at(*e.RetryAt))
	case e.First == "":
		return "No backend can take a request: it gets an error."
	}
	said := fmt.Sprintf("A request goes to %s first (%s)", e.First, e.Reason)
	if rest := e.Steps[len(e.Steps)-1].Order[1:]; len(rest) > 0 {
		said += ", then to " + strings.Join(rest, ", then to ")
	} else {
		said += ", and nowhere else"
	}
	if e.Preference != "" {
		said += "; X-Spillway-Preference says " + e.Preference
	}
	return said + "."
}

func listOr(names []string, empty string) string {
	if len(names) == 0 {
		return empty
	}
	return strings.Join(names, ", ")
}
