package compiler

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Derived defaults, where the spec leaves a field out that has no constant one.
const (
	derivedSlowAfter             = 30 * time.Second // with more than one backend in the chain, else 0
	derivedNonStreamingSlowAfter = 10 * time.Minute // or slowAfter where that is larger; 0 where slowAfter is 0
)

// Bounds of the schema.
const (
	maxThreshold     = 1000
	maxAttempts      = 10
	maxCount         = 1_000_000 // requests, burst, maxInFlight
	maxQueue         = 10_000
	maxContextWindow = 1_000_000_000
	unbounded        = time.Duration(math.MaxInt64)
)

// saturationSettings are saturation settings before what they leave out is derived.
type saturationSettings struct {
	table.Saturation
	slowAfterSet, nonStreamingSet bool
}

// derive fills in what neither the backend nor the route sets.
func (s saturationSettings) derive(backends int) table.Saturation {
	if !s.slowAfterSet && backends > 1 {
		s.SlowAfter = derivedSlowAfter
	}
	if !s.nonStreamingSet && s.SlowAfter > 0 {
		s.NonStreamingSlowAfter = max(derivedNonStreamingSlowAfter, s.SlowAfter)
	}
	return s.Saturation
}

type parsedDuration struct {
	span time.Duration
	err  error
}

// span is a duration field with its bounds.
type span struct {
	field    string
	value    v1alpha1.Duration
	min, max time.Duration
}

// refuser is what has a place for a mistake: a route, a backend or a pin.
type refuser interface {
	refuse(reason v1alpha1.ConditionReason, field, message string)
	// reading returns the reader that is at work on it, for what the reader remembers.
	reading() *reader
}

func (d *routeDraft) reading() *reader { return d.reader }

// duration reads a duration field. A bad one is refused and reads as 0.
func duration(to refuser, s span) time.Duration {
	durations := to.reading().durations
	parsed, known := durations[s.value]
	if !known {
		parsed.span, parsed.err = s.value.Parse()
		durations[s.value] = parsed
	}
	switch {
	case parsed.err != nil:
		to.refuse(v1alpha1.ReasonInvalidDuration, s.field,
			"The value is not a duration; write whole numbers with a unit of h, m, s or ms, such as 250ms, 30s or 1h30m.")
	case parsed.span < s.min && s.max != unbounded:
		to.refuse(v1alpha1.ReasonInvalidDuration, s.field, fmt.Sprintf("The value must be between %s and %s.",
			v1alpha1.FormatDuration(s.min), v1alpha1.FormatDuration(s.max)))
	case parsed.span < s.min:
		to.refuse(v1alpha1.ReasonInvalidDuration, s.field, fmt.Sprintf("The value must be at least %s.", v1alpha1.FormatDuration(s.min)))
	case parsed.span > s.max:
		to.refuse(v1alpha1.ReasonInvalidDuration, s.field, fmt.Sprintf("The value must be at most %s.", v1alpha1.FormatDuration(s.max)))
	default:
		return parsed.span
	}
	return 0
}

// override reads a duration field that a backend may leave out, and says whether it is there.
func override(b *backendDraft, field string, value *v1alpha1.Duration, out *time.Duration) (set bool) {
	if value == nil || *value == "" {
		return false
	}
	*out = duration(b, span{field, *value, 0, unbounded})
	return true
}

// overrideCooldown is override for a span that must not be 0.
func overrideCooldown(b *backendDraft, field string, value *v1alpha1.Duration, out *time.Duration) {
	if value != nil && *value != "" {
		*out = duration(b, span{field, *value, time.Millisecond, unbounded})
	}
}

// number reads a number field within bounds. One that is out of them is refused and reads as the lower bound.
func number[T int32 | int64](to refuser, field string, value, least, most T) int {
	if value < least || value > most {
		to.refuse(v1alpha1.ReasonInvalidSpec, field, fmt.Sprintf("The value must be between %d and %d.", least, most))
		return int(least)
	}
	return int(value)
}

// choice reads an enum field.
func choice[T, U ~string](to refuser, field string, value T, allowed ...T) U {
	if !slices.Contains(allowed, value) {
		words := make([]string, len(allowed))
		for i, word := range allowed {
			words[i] = string(word)
		}
		to.refuse(v1alpha1.ReasonInvalidSpec, field, "The value must be one of "+strings.Join(words, ", ")+".")
	}
	return U(value)
}

func readRouteFailure(d *routeDraft) {
	f := &d.spec.Failure
	d.failure = table.Failure{
		Threshold: number(d, "spec.failure.threshold", f.Threshold, 1, maxThreshold),
		Cooldown:  duration(d, span{"spec.failure.cooldown", f.Cooldown, time.Millisecond, unbounded}),
	}
}

func readRouteSaturation(d *routeDraft) {
	const field = "spec.saturation."
	s, out := &d.spec.Saturation, &d.saturation
	out.Threshold = number(d, field+"threshold", s.Threshold, 1, maxThreshold)
	out.Cooldown = duration(d, span{field + "cooldown", s.Cooldown, time.Millisecond, unbounded})
	out.SlowAfterPerKilotoken = duration(d, span{field + "slowAfterPerKilotoken", s.SlowAfterPerKilotoken, 0, unbounded})
	out.ColdStartGrace = duration(d, span{field + "coldStartGrace", s.ColdStartGrace, 0, unbounded})
	if s.SlowAfter != "" {
		out.slowAfterSet = true
		out.SlowAfter = duration(d, span{field + "slowAfter", s.SlowAfter, 0, unbounded})
	}
	if s.NonStreamingSlowAfter != "" {
		out.nonStreamingSet = true
		out.NonStreamingSlowAfter = duration(d, span{field + "nonStreamingSlowAfter", s.NonStreamingSlowAfter, 0, unbounded})
	}
}

func readTimeouts(d *routeDraft) {
	t := &d.spec.Timeouts
	d.entry.Timeouts = table.Timeouts{
		Request: duration(d, span{"spec.timeouts.request", t.Request, 0, unbounded}),
		Connect: duration(d, span{"spec.timeouts.connect", t.Connect, 0, unbounded}),
		Idle:    duration(d, span{"spec.timeouts.idle", t.Idle, 0, unbounded}),
	}
}

func readRetry(d *routeDraft) {
	r := &d.spec.Retry
	d.entry.Retry = table.Retry{
		Attempts: number(d, "spec.retry.attempts", r.Attempts, 0, maxAttempts),
		Backoff:  duration(d, span{"spec.retry.backoff", r.Backoff, 0, unbounded}),
	}
}

func readHeartbeat(d *routeDraft) {
	h := &d.spec.Heartbeat
	interval := duration(d, span{"spec.heartbeat.interval", h.Interval, 0, unbounded})
	if interval > 0 && interval < time.Second {
		d.refuse(v1alpha1.ReasonInvalidDuration, "spec.heartbeat.interval", "The interval must be 0s (no keepalives) or at least 1s.")
	}
	d.entry.Heartbeat = table.Heartbeat{
		Interval:    interval,
		CommitAfter: duration(d, span{"spec.heartbeat.commitAfter", h.CommitAfter, 0, unbounded}),
		Form: choice[v1alpha1.HeartbeatForm, table.HeartbeatForm](d, "spec.heartbeat.form", h.Form,
			v1alpha1.HeartbeatLine, v1alpha1.HeartbeatBlock),
	}
}

func readRateLimit(d *routeDraft) {
	r := &d.spec.RateLimit
	d.entry.RateLimit = table.RateLimit{
		Requests: number(d, "spec.rateLimit.requests", *r.Requests, 0, maxCount),
		Per:      duration(d, span{"spec.rateLimit.per", r.Per, time.Second, time.Hour}),
		Burst:    number(d, "spec.rateLimit.burst", r.Burst, 1, maxCount),
	}
}

func readQueue(d *routeDraft) {
	q := &d.spec.Queue
	d.entry.Queue = table.Queue{
		Length:  number(d, "spec.queue.length", *q.Length, 0, maxQueue),
		MaxWait: duration(d, span{"spec.queue.maxWait", q.MaxWait, 0, unbounded}),
	}
}

// readChoices reads the enums that stand alone. The words of the table are those of the API.
func readChoices(d *routeDraft) {
	s, out := d.spec, d.entry
	choice[v1alpha1.ProbeMode, table.ProbeMode](d, "spec.recovery.probe", s.Recovery.Probe, v1alpha1.ProbeSynthetic, v1alpha1.ProbeRequest)
	out.PreferHeader = choice[v1alpha1.PreferHeader, table.PreferHeader](d, "spec.preferHeader", s.PreferHeader,
		v1alpha1.PreferHonor, v1alpha1.PreferIgnore)
	out.WhenAllOpen = choice[v1alpha1.WhenAllOpen, table.WhenAllOpen](d, "spec.whenAllOpen", s.WhenAllOpen,
		v1alpha1.AllOpenTry, v1alpha1.AllOpenReject)
	out.ResponseModel = choice[v1alpha1.ResponseModel, table.ResponseModel](d, "spec.responseModel", s.ResponseModel,
		v1alpha1.ResponseModelLogical, v1alpha1.ResponseModelPhysical)
}
