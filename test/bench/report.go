package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// columns of the table.
var columns = []string{nginx, goBase, ours}

func cpus() int { return runtime.NumCPU() }

// report renders what was measured, in Markdown.
func (b *bench) report(now time.Time) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, commit %s; %s. Medians of %d alternating repeats of %s each. Other programs took %.0f %% of the CPU meanwhile.\n\n",
		now.UTC().Format(time.DateOnly), commit(), machine(), b.repeats, b.window, 100*b.foreignShare())
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

// commit names what was measured, as far as git knows.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine describes this one without naming it.
func machine() string {
	model := runtime.GOARCH
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d CPUs (%s), %s, %s", cpus(), model, runtime.GOOS, runtime.Version())
}
