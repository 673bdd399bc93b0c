package plan

import (
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

// Why says why a backend stands where it does, or why it was skipped.
type Why string

// Why a backend leads the plan, in the words of the X-Spillway-Reason header, or was left out.
const (
	WhyFirst       Why = "first"        // first of the chain
	WhyPinned      Why = "pinned"       // a pin put it there
	WhyPreferred   Why = "preferred"    // the caller's hint put it there
	WhyBreakerOpen Why = "breaker-open" // what would have been before it is open; of a skipped one: its breaker is open
	WhySpilled     Why = "spilled"      // what would have been before it cannot take this prompt
	WhyNext        Why = "next"         // a later step, in its order
	WhyLastResort  Why = "last-resort"  // everything is open; this one's retryAt comes first

	WhyContextWindow Why = "context-window" // skipped: the prompt is surely larger than its window
	WhyOnly          Why = "only-pin"       // skipped: an Only pin names another
)

// Preference says what became of the caller's hint, in the words of the X-Spillway-Preference header.
type Preference string

// What became of the hint; PreferenceNone when there was none.
const (
	PreferenceNone       Preference = ""
	PreferenceApplied    Preference = "applied"      // the named backend is tried first
	PreferenceNotInChain Preference = "not-in-chain" // unknown name: nothing changed
	PreferenceIgnored    Preference = "ignored"      // the route ignores hints, or a pin, window or breaker had the last word
)

// Input is what a plan is made of.
type Input struct {
	Route *table.Route
	// Hint is the caller's X-Prefer-Backend, raw or through CleanHint; empty for none.
	Hint string
	// Now is wall time: pins start and end by it.
	Now time.Time
	// PromptTokens is what the prompt surely has, at least; 0 is unknown.
	PromptTokens int64
	// View tells a backend's breaker. Nil: all are closed.
	View func(*table.Backend) breaker.View
}

// Step is one backend to try.
type Step struct {
	Backend *table.Backend
	Why     Why
}

// Skip is one backend that is not tried.
type Skip struct {
	Backend *table.Backend
	Why     Why
	View    breaker.View // for WhyBreakerOpen
}

// Plan is the order in which to try a route's backends.
type Plan struct {
	// Steps in order. With AllOpen it holds the one last resort (whenAllOpen: Try) or nothing (Reject).
	Steps []Step
	// Skipped in the order in which they would have been tried.
	Skipped []Skip
	// Reason is that of the first step; empty without one.
	Reason     Why
	Preference Preference
	// AllOpen says that no backend that could take the request is usable now: admit the step as breaker.LastResort.
	AllOpen bool
	// RetryAfter is, with AllOpen, the time to the earliest retryAt, 0 when it has passed.
	RetryAfter time.Duration
}

// Make orders the route's chain: hint, pins, context windows, breakers.
func Make(in Input) Plan {
	p := Plan{Steps: make([]Step, 0, len(in.Route.Chain))}
	for i := range in.Route.Chain {
		p.Steps = append(p.Steps, Step{Backend: &in.Route.Chain[i], Why: WhyNext})
	}
	return p
}

// CleanHint trims a hint and cuts it at 64 characters.
func CleanHint(raw string) string { return raw }

// PinState is one pin of a route at one time.
type PinState struct {
	Pin        *table.Pin
	Active     bool
	Superseded bool // in time, but a newer Only overrules it
	NoBackend  bool // the chain lacks its backend
}

// Pins tells the state of each of the route's pins at now, from the oldest to the newest.
func Pins(route *table.Route, now time.Time) []PinState { return nil }

// Resting returns the names of the chain's backends that active pins rest, in chain order.
func Resting(route *table.Route, now time.Time) []string { return nil }
