package burst

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Finding is what a run shows, if it shows anything.
type Finding string

// The findings.
const (
	// Flat: everything was admitted.
	Flat Finding = "flat"
	// Shedding: some calls were turned away, and not only by the route's own limit.
	Shedding Finding = "shedding"
	// RouteLimit: the route's own rate limit turned calls away; what is behind it was not measured.
	RouteLimit Finding = "route-limit"
	// Refused: no call could succeed, whatever the load.
	Refused Finding = "refused"
	// Unclear: calls ended in other ways.
	Unclear Finding = "unclear"
)

// Strength is how much a finding says about the admission control of the backends.
type Strength string

// The strengths. There is no strong one: a few seconds of identical calls do not give that.
const (
	StrengthNone Strength = "none"
	StrengthWeak Strength = "weak"
	StrengthFair Strength = "fair"
)

// Limit is what is known of the route's own rate limit.
type Limit struct {
	// Known says that the route was read; else Unknown says why not.
	Known   bool   `json:"known"`
	Unknown string `json:"unknown,omitempty"`
	On      bool   `json:"on"`
	// Text is the limit for people: "1 per 1s, burst 4".
	Text string `json:"text,omitempty"`
}

// Verdict is what a run says, and what it does not.
type Verdict struct {
	Finding  Finding  `json:"finding"`
	Strength Strength `json:"strength"`
	// Says are sentences, the most important first.
	Says []string `json:"says"`
}

// codeRateLimited is the error code of the route's own limit.
const codeRateLimited = "rate_limited"

// Judge reads the levels of a run. settled is the answer that ended it early, or nil.
func Judge(levels []Level, settled *Answer, limit Limit) Verdict {
	t := total(levels)
	var v Verdict
	switch {
	case settled != nil:
		v = Verdict{Refused, StrengthNone, []string{fmt.Sprintf(
			"The server refuses such calls whatever the load (%s), so the run was ended. Check the model, the address and the token.", named(settled))}}
	case t.Calls == 0:
		v = Verdict{Unclear, StrengthNone, []string{"No call was made."}}
	case t.ShedCalls() > 0:
		v = judgeShedding(levels, &t, limit)
	case t.FailedCalls() > 0:
		v = Verdict{Unclear, StrengthNone, []string{fmt.Sprintf(
			"%d of %d calls failed without being shed, so nothing can be said about admission control: mend that first.", t.FailedCalls(), t.Calls)}}
	default:
		v = judgeFlat(levels, &t)
	}
	v.addGeneral(levels, &t)
	return v
}

func judgeFlat(levels []Level, t *Level) Verdict {
	v := Verdict{Flat, StrengthWeak, []string{fmt.Sprintf(
		"All %d calls were admitted. That cannot tell \"no admission control\" from \"absorbed\": a limit above %d calls at once, a queue, or one that counts tokens or minutes would look the same.",
		t.Calls, highest(levels))}}
	if low, high := medians(levels); low > 0 && high >= 3*low {
		v.Says = append(v.Says, fmt.Sprintf("The median grew from %d ms to %d ms with the load: calls waited for one another somewhere, so a larger or longer burst may be shed.", low, high))
	}
	return v
}

func judgeShedding(levels []Level, t *Level, limit Limit) Verdict {
	shed, own := t.ShedCalls(), t.ShedCodes[codeRateLimited]
	v := Verdict{Finding: Shedding, Strength: StrengthWeak}
	if own == shed {
		v.Finding, v.Strength = RouteLimit, StrengthNone
		v.Says = append(v.Says, fmt.Sprintf("All %d shed calls carry the code %s: the route's own limit was measured, not the backend behind it.", shed, codeRateLimited))
	} else {
		v.Says = append(v.Says, fmt.Sprintf("%d of %d calls were shed, the first ones at concurrency %d.", shed, t.Calls, firstShed(levels)))
		if own > 0 {
			v.Says = append(v.Says, fmt.Sprintf("%d of them carry the code %s, which is the route's own limit.", own, codeRateLimited))
		}
		if limit.Known && !limit.On && own == 0 && consistent(levels) {
			v.Strength = StrengthFair
		}
	}
	v.Says = append(v.Says, aboutLimit(limit))
	switch {
	case t.RetryAfter == shed:
		v.Says = append(v.Says, "Every shed answer carried Retry-After.")
	default:
		v.Says = append(v.Says, fmt.Sprintf("%d of %d shed answers carried Retry-After; without it a caller can only guess when to come back.", t.RetryAfter, shed))
	}
	return v
}

// aboutLimit says whether the route's own limit may be what was measured.
func aboutLimit(limit Limit) string {
	switch {
	case !limit.Known:
		return fmt.Sprintf("Whether the route's own rate limit is on is not known (%s): it may be what was measured.", limit.Unknown)
	case limit.On:
		return fmt.Sprintf("The route's own rate limit is on (%s): it may be what was measured. Set spec.rateLimit.requests to 0 on a route for the probe, and run again.", limit.Text)
	default:
		return "The route's own rate limit is off, so that it is not what was measured."
	}
}

// addGeneral adds what weakens any verdict.
func (v *Verdict) addGeneral(levels []Level, t *Level) {
	if len(t.Backends) > 1 {
		var parts []string
		for _, name := range Names(t.Backends) {
			parts = append(parts, fmt.Sprintf("%s %d", name, t.Backends[name]))
		}
		v.Says = append(v.Says, "More than one backend answered ("+strings.Join(parts, ", ")+"): calls spilled over, so this is the chain and not one backend.")
	}
	if failed := t.FailedCalls(); failed > 0 && v.Finding == Shedding {
		v.Strength = StrengthWeak
		v.Says = append(v.Says, fmt.Sprintf("%d calls failed in other ways.", failed))
	}
	if v.Finding != Refused && t.Calls > 0 {
		least := slices.MinFunc(levels, func(a, b Level) int { return a.Calls - b.Calls })
		v.Says = append(v.Says, fmt.Sprintf("Few calls, identical and short: at concurrency %d a percentile stands on %s.", least.Concurrency, callsText(least.Calls)))
	}
}

func named(a *Answer) string {
	if a.Code != "" {
		return fmt.Sprintf("status %d, %s", a.Status, a.Code)
	}
	return fmt.Sprintf("status %d", a.Status)
}

// total adds the levels up.
func total(levels []Level) Level {
	var t Level
	for i := range levels {
		l := &levels[i]
		t.Calls += l.Calls
		t.Admitted += l.Admitted
		t.RetryAfter += l.RetryAfter
		for _, pair := range []struct {
			to   *map[string]int
			from map[string]int
		}{{&t.Shed, l.Shed}, {&t.ShedCodes, l.ShedCodes}, {&t.Failed, l.Failed}, {&t.Backends, l.Backends}} {
			if *pair.to == nil {
				*pair.to = maps.Clone(pair.from)
				continue
			}
			for key, n := range pair.from {
				(*pair.to)[key] += n
			}
		}
	}
	return t
}

func highest(levels []Level) (n int) {
	for _, l := range levels {
		n = max(n, l.Concurrency)
	}
	return n
}

func firstShed(levels []Level) int {
	for i := range levels {
		if levels[i].ShedCalls() > 0 {
			return levels[i].Concurrency
		}
	}
	return 0
}

// consistent says whether the levels that shed did so in each of their bursts: once can be chance.
func consistent(levels []Level) bool {
	for i := range levels {
		if l := &levels[i]; l.ShedIn > 0 && l.ShedIn < l.Bursts || l.Bursts < 2 {
			return false
		}
	}
	return true
}

// medians are those of the lowest and the highest concurrency.
func medians(levels []Level) (low, high int64) {
	first, last := levels[0], levels[len(levels)-1]
	if first.Latency == nil || last.Latency == nil || len(levels) < 2 {
		return 0, 0
	}
	return first.Latency.P50, last.Latency.P50
}

func callsText(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}
