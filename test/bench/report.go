package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/bench/page"
)

// columns of the table.
var columns = []string{nginx, goBase, ours}

func cpus() int { return runtime.NumCPU() }

// report renders what was measured, in Markdown.
func (b *bench) report(now time.Time) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, commit %s; %s. Medians of %d alternating repeats of %s each. Other programs took %.0f %% of the CPU meanwhile.\n\n",
		now.UTC().Format(time.DateOnly), page.Commit(), page.Machine(), b.repeats, b.window, 100*b.foreignShare())
	fmt.Fprintf(&text, "| measure | %s | %s / base | must | goal | met |\n", strings.Join(columns, " | "), ours)
	text.WriteString(strings.Repeat("|---", len(columns)+5) + "|\n")
	for _, r := range rows(b.options.rate) {
		text.WriteString(r.line(b.results[r.key], columns))
	}
	for i, note := range b.notes {
		if i == 0 {
			text.WriteString("\n")
		}
		text.WriteString("- " + note + "\n")
	}
	return text.String()
}

// foreignShare is the part of this machine's CPU time that programs other than ours took while measuring.
func (b *bench) foreignShare() float64 {
	if b.watched == 0 {
		return 0
	}
	return b.foreign.Seconds() / b.watched.Seconds()
}
