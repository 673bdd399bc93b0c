package main

import (
	"fmt"
	"math"
	"strings"
)

// Keys of the results.
const (
	keyUnaryRate   = "unary rate"
	keyUnaryCPU    = "unary cpu"
	keyRateCPU     = "rate cpu"
	keyRateP50     = "rate p50"
	keyRateP99     = "rate p99"
	keyStreamToken = "stream token"
	keyStreamCPU   = "stream cpu"
	keyHeld        = "held"
	keyCrowd       = "crowd"
	keyBroken      = "broken"
	keyLeaving     = "leaving"
	keySilent      = "silent " // and the stage
	keyOpenedP50   = "opened p50"
	keyOpenedP99   = "opened p99"
	keyReload      = "reload"
)

// row is a line of the table. Its targets are for the ratio to base, or for our own number where absolute is set.
type row struct {
	key, title string
	absolute   bool
	atLeast    bool // more is better
	must, goal float64
}

// rows returns the lines in the order of the table. rate is the fixed rate that was taken.
func rows(rate float64) []row {
	all := []row{
		{key: keyUnaryRate, title: "unary: most requests/s", atLeast: true, must: 0.9, goal: 1.25},
		{key: keyUnaryCPU, title: "unary: CPU ms per 1,000 requests, at the most", must: 1.15, goal: 0.8},
		{key: keyRateCPU, title: fmt.Sprintf("unary: CPU ms per 1,000 requests, at %.0f/s", rate), must: 1.15, goal: 0.8},
		{key: keyRateP50, title: fmt.Sprintf("unary: added p50 at %.0f/s, ms", rate), must: 1.3, goal: 1},
		{key: keyRateP99, title: fmt.Sprintf("unary: added p99 at %.0f/s, ms", rate), must: 1.3, goal: 1},
		{key: keyStreamToken, title: "streams: added p50 to the first token, ms", must: 1.2, goal: 0.8},
		{key: keyStreamCPU, title: "streams: CPU ms per 1,000 chunks", must: 1.2, goal: 0.8},
		{key: keyHeld, title: "memory per held stream (2,000), KiB", absolute: true, must: 60, goal: 40},
		{key: keyCrowd, title: "memory of 10,000 held streams, MiB", absolute: true, must: 700, goal: 450},
		{key: keyBroken, title: "healthy streams broken, of 3,000", absolute: true},
		{key: keyLeaving, title: "caller's leaving seen by the backend, slowest of 15, ms", absolute: true, must: 1000, goal: 200},
	}
	for _, stage := range silences {
		all = append(all, row{key: keySilent + stage, title: "first backend silent (" + stage + "): first token after slowAfter +, ms",
			absolute: true, must: 100, goal: 20})
	}
	return append(all,
		row{key: keyOpenedP50, title: "breaker open: added p50 to the first token, ms", absolute: true, must: 5, goal: 1},
		row{key: keyOpenedP99, title: "breaker open: added p99 to the first token, ms", absolute: true, must: 5, goal: 1},
		row{key: keyReload, title: "reload of 10,000 routes each second: slowest answer / p99 without", absolute: true, must: 2, goal: 1.2})
}

// judged is the number that has targets: the median of the ratios within one round, or our own median.
func (r *row) judged(results map[string][]float64) float64 {
	if r.absolute {
		return median(results[ours])
	}
	var ratios []float64
	for i, base := range results[goBase] {
		if i < len(results[ours]) && base > 0 {
			ratios = append(ratios, results[ours][i]/base)
		}
	}
	return median(ratios)
}

// verdict says which target a number meets.
func (r *row) verdict(value float64) string {
	meets := func(target float64) bool {
		if r.atLeast {
			return value >= target
		}
		return value <= target
	}
	switch {
	case math.IsNaN(value):
		return ""
	case meets(r.goal):
		return "goal"
	case meets(r.must):
		return "must"
	}
	return "**missed**"
}

// line renders the row; empty where nothing of it was measured.
func (r *row) line(results map[string][]float64, names []string) string {
	if len(results) == 0 {
		return ""
	}
	cells := []string{r.title}
	for _, name := range names {
		cells = append(cells, number(median(results[name])))
	}
	value, ratio := r.judged(results), ""
	if !r.absolute {
		ratio = number(value)
	}
	sign := "<= "
	if r.atLeast {
		sign = ">= "
	}
	cells = append(cells, ratio, sign+number(r.must), sign+number(r.goal), r.verdict(value))
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// number shows three digits, and whole numbers above.
func number(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v), size >= 100:
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
