package plan

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/pin"
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
	// Steps in order. With AllOpen it holds the one last resort (whenAllOpen: Try) or nothing (Reject). It is empty, too,
	// for a route without a chain.
	Steps []Step
	// Skipped: those an Only pin filters, then those with too small a window, then those that are open, each in order.
	Skipped []Skip
	// First is what leads the order, be it open or not: the backend that the caller asks for. Nil where no backend is left.
	First *table.Backend
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
	var p Plan
	var room [8]int // the longest chain that the API allows stays off the heap
	order := room[:0]
	for i := range in.Route.Chain {
		order = append(order, i)
	}
	order, why := p.prefer(&in, order)
	order, filtered, pinned := pin.Order(in.Route, in.Now, order)
	for _, at := range filtered {
		p.skip(&in.Route.Chain[at], WhyOnly, breaker.View{})
	}
	if pinned {
		why = WhyPinned
	}
	order, why = p.fit(&in, order, why)
	if len(order) > 0 {
		p.First = &in.Route.Chain[order[0]]
	}
	p.choose(&in, order, why)
	p.judgeHint(&in)
	return p
}

// maxHint bounds the hint header, in characters.
const maxHint = 64

// CleanHint trims a hint and cuts it at 64 characters.
func CleanHint(raw string) string {
	s := strings.TrimSpace(raw)
	if len(s) <= maxHint {
		return s
	}
	end := 0
	for range maxHint {
		if end == len(s) {
			return s
		}
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}

// prefer applies the caller's hint.
func (p *Plan) prefer(in *Input, order []int) ([]int, Why) {
	hint := CleanHint(in.Hint)
	if hint == "" {
		return order, WhyFirst
	}
	p.Preference = PreferenceNotInChain
	for i := range in.Route.Chain {
		if in.Route.Chain[i].Name != hint {
			continue
		}
		if in.Route.PreferHeader == table.PreferIgnore {
			break
		}
		p.Preference = PreferenceApplied
		pin.MoveToFront(order, i)
		return order, WhyPreferred
	}
	if in.Route.PreferHeader == table.PreferIgnore {
		p.Preference = PreferenceIgnored
	}
	return order, WhyFirst
}

// fit leaves out the backends whose window the prompt surely exceeds. Where that is so for all, the one with the largest
// window stays: its own answer tells the caller what is wrong.
func (p *Plan) fit(in *Input, order []int, why Why) ([]int, Why) {
	largest := -1
	for _, at := range order {
		b := &in.Route.Chain[at]
		if fits(b, in.PromptTokens) {
			largest = -1
			break
		}
		if largest < 0 || b.ContextWindow > in.Route.Chain[largest].ContextWindow {
			largest = at
		}
	}
	kept := order[:0]
	for _, at := range order {
		b := &in.Route.Chain[at]
		if at == largest || fits(b, in.PromptTokens) {
			kept = append(kept, at)
			continue
		}
		if len(kept) == 0 {
			why = WhySpilled
		}
		p.skip(b, WhyContextWindow, breaker.View{})
	}
	return kept, why
}

func fits(b *table.Backend, tokens int64) bool {
	return b.ContextWindow == 0 || tokens <= b.ContextWindow
}

func (in *Input) view(b *table.Backend) breaker.View {
	if in.View == nil {
		return breaker.View{State: breaker.Closed, Usable: true}
	}
	return in.View(b)
}

// choose leaves out the open backends while another remains.
func (p *Plan) choose(in *Input, order []int, why Why) {
	p.Steps = make([]Step, 0, len(order))
	var soonest Skip
	for _, at := range order {
		b := &in.Route.Chain[at]
		v := in.view(b)
		switch {
		case v.Usable && len(p.Steps) == 0:
			p.Steps = append(p.Steps, Step{b, why})
		case v.Usable:
			p.Steps = append(p.Steps, Step{b, WhyNext})
		default:
			p.skip(b, WhyBreakerOpen, v)
			why = WhyBreakerOpen
			if soonest.Backend == nil || v.Remaining < soonest.View.Remaining {
				soonest = Skip{b, WhyBreakerOpen, v}
			}
		}
	}
	if len(p.Steps) == 0 && soonest.Backend != nil {
		p.lastResort(in, soonest)
	}
	if len(p.Steps) > 0 {
		p.Reason = p.Steps[0].Why
	}
}

// lastResort settles a chain in which everything is open.
func (p *Plan) lastResort(in *Input, soonest Skip) {
	p.AllOpen = true
	p.RetryAfter = soonest.View.Remaining
	if in.Route.WhenAllOpen == table.AllOpenReject {
		return
	}
	p.Steps = append(p.Steps, Step{soonest.Backend, WhyBreakerOpen})
	for i := range p.Skipped {
		if p.Skipped[i].Backend == soonest.Backend {
			p.Skipped = append(p.Skipped[:i], p.Skipped[i+1:]...)
			return
		}
	}
}

// judgeHint tells the caller that something stronger than the hint decided.
func (p *Plan) judgeHint(in *Input) {
	if p.Preference != PreferenceApplied {
		return
	}
	if len(p.Steps) == 0 || p.Steps[0].Backend.Name != CleanHint(in.Hint) {
		p.Preference = PreferenceIgnored
	}
}

func (p *Plan) skip(b *table.Backend, why Why, v breaker.View) {
	p.Skipped = append(p.Skipped, Skip{b, why, v})
}
