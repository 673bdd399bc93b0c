package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/bench/page"
	"github.com/spillway-dev/spillway/test/bench/proc"
)

// Keys of the results.
const (
	keyEditP50       = "edit p50"
	keyEditP99       = "edit p99"
	keyAdoptP50      = "adopt p50"
	keyAdoptP99      = "adopt p99"
	keyStatusP99     = "status p99"
	keyCompile       = "compile"
	keyCompileKnown  = "compile known"
	keyRecompile     = "recompile"
	keyManagerMemory = "manager memory"
	keyIdleCPU       = "idle cpu"
	keyIdleReports   = "idle reports"
	keyIdleOthers    = "idle others"
	keyBurstRate     = "burst rate"
	keyBurstWrites   = "burst writes"
	keyBurstTime     = "burst time"
	keyProxyMemory   = "proxy memory"
)

// row is a line of the table; must is the most that it may be, NaN where that is not said.
type row struct {
	key, title string
	must       float64
}

var rows = []row{
	{keyEditP50, "write of one route to live on a real proxy, p50, ms", 100},
	{keyEditP99, "the same, p99, ms", 250},
	{keyAdoptP50, "breaker opened on one proxy to adopted on another, p50, ms", 150},
	{keyAdoptP99, "the same, p99, ms", 1000},
	{keyStatusP99, "status says Saturated after the opening, p99, ms", 1500},
	{keyCompile, "compile of everything from a warm cache, median of 7, ms", 100},
	{keyCompileKnown, "the same where the last compile is known, as it is to the manager after its start, ms", 100},
	{keyRecompile, "compile after an edit, with the shard that differs, mean in the manager, ms", math.NaN()},
	{keyManagerMemory, "manager memory, at the end, MiB", 1024},
	{keyIdleCPU, "manager CPU while idle, % of a core", 2},
	{keyIdleReports, "report writes per proxy in an idle minute", 4.1},
	{keyIdleOthers, "other API writes in an idle minute, leases aside", 0},
	{keyBurstRate, "saturation burst: most status writes of a route in a second", 1},
	{keyBurstWrites, "saturation burst: status writes per route, mean", math.NaN()},
	{keyBurstTime, "saturation burst: until the last route's status is right, s", math.NaN()},
	{keyProxyMemory, "memory of a proxy with the table, MiB", 200},
}

// report renders what was measured, in Markdown.
func (b *bench) report(now time.Time) string {
	var text strings.Builder
	// The whole control plane under test is processes of its own, so what others took is not told apart here.
	used := 100 * (proc.Busy() - b.busy).Seconds() / (now.Sub(b.began).Seconds() * float64(runtime.NumCPU()))
	fmt.Fprintf(&text, "%s, commit %s; %s. %d routes, %d pins, %d simulated and %d real proxies; %d edits and %d openings. This machine was %.0f %% busy meanwhile.\n\n",
		now.UTC().Format(time.DateOnly), page.Commit(), page.Machine(), b.options.routes, b.pins, b.reports, len(b.stack.Proxies), b.samples, b.samples, used)
	text.WriteString("| measure | spillway | must | met |\n|---|---|---|---|\n")
	for _, r := range rows {
		text.WriteString(r.line(b.results))
	}
	for i, note := range b.notes {
		if i == 0 {
			text.WriteString("\n")
		}
		text.WriteString("- " + note + "\n")
	}
	return text.String()
}

func (r *row) line(results map[string]float64) string {
	value, measured := results[r.key]
	if !measured {
		fmt.Fprintln(os.Stderr, "bench-control: nothing was measured for", r.key)
		return ""
	}
	must, met := "", ""
	if !math.IsNaN(r.must) {
		must, met = fmt.Sprintf("<= %.4g", r.must), "yes"
		if value > r.must {
			met = "**missed**"
		}
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", r.title, number(value), must, met)
}

// number shows three digits, and whole numbers above.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
