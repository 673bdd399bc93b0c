package plugin

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/plugin/burst"
)

// printRecord prints a run for people.
func printRecord(w io.Writer, r *burst.Record) error {
	fmt.Fprintf(w, "%d of %d calls of %q to %s\n", r.Made, r.Planned, r.Model, r.Target)
	switch {
	case !r.RateLimit.Known:
		fmt.Fprintf(w, "The route's own rate limit: not known (%s)\n\n", r.RateLimit.Unknown)
	case r.RateLimit.On:
		fmt.Fprintf(w, "The route's own rate limit: %s\n\n", r.RateLimit.Text)
	default:
		fmt.Fprint(w, "The route's own rate limit: off\n\n")
	}
	t := grid{header: []string{"AT ONCE", "CALLS", "ADMITTED", "SHED", "RETRY-AFTER", "FAILED", "P50", "P90", "P99", "MAX"}}
	for i := range r.Levels {
		t.add(levelCells(&r.Levels[i])...)
	}
	if err := t.print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nVerdict: %s (evidence: %s)\n", r.Verdict.Finding, r.Verdict.Strength)
	for _, said := range r.Verdict.Says {
		fmt.Fprintf(w, "- %s\n", oneLine(said))
	}
	return nil
}

func levelCells(l *burst.Level) []string {
	cells := []string{
		strconv.Itoa(l.Concurrency), strconv.Itoa(l.Calls), strconv.Itoa(l.Admitted),
		countsText(l.Shed), none, countsText(l.Failed), none, none, none, none,
	}
	if shed := l.ShedCalls(); shed > 0 {
		cells[4] = fmt.Sprintf("%d of %d", l.RetryAfter, shed)
	}
	if p := l.Latency; p != nil {
		for i, ms := range []int64{p.P50, p.P90, p.P99, p.Max} {
			cells[6+i] = fmt.Sprintf("%dms", ms)
		}
	}
	return cells
}

// countsText is "0", or "12x429, 3x503".
func countsText(counts map[string]int) string {
	if len(counts) == 0 {
		return "0"
	}
	var parts []string
	for _, name := range burst.Names(counts) {
		parts = append(parts, fmt.Sprintf("%dx%s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}
