package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
)

// Class is how one attempt at one backend ended.
type Class uint8

// Classes, in the order of the rules.
const (
	Success       Class = iota // complete answer
	Saturated                  // no first token in time
	Refused                    // full, loading or throttling, in the backend's own words
	Failed                     // refused, DNS, TLS, reset, EOF, 5xx, 408, 425, 499, 52x
	Invalid                    // 2xx that is no answer, or cut before the first token
	Rejected                   // settled: an identical body cannot do better
	TooLong                    // the prompt does not fit this backend's window
	Misconfigured              // our credential, our account, our URL
	Forbidden                  // the same by 403, which may be about this one prompt
	Unsupported                // the same for this endpoint only
	OutOfShare                 // its share of the budget ended before the first token
	Cancelled                  // the caller went away, or the process goes down
	Deadline                   // the budget is spent
	NoRoom                     // the process holds as many bytes of bodies as it may
	Broken                     // silence, reset or an error event after the first token
)

// rule is one line of the outcome table.
type rule struct {
	name     string       // in metrics, logs and the list of attempts
	next     bool         // is the next backend asked?
	evidence breaker.Kind // what the breaker learns
	code     openai.Code  // what the caller gets, if it was the last
	reason   string       // X-Spillway-Reason of the backend that is asked next
	says     string       // error.message, if it was the last; goes behind "the backend " or stands alone
}

// rules is the outcome table: who is asked next, whose fault it was, what the caller gets.
var rules = [...]rule{
	Success:   {name: "success", evidence: breaker.Success},
	Saturated: {name: "saturated", next: true, evidence: breaker.Silent, code: openai.CodeBackendSaturated, reason: "saturated", says: "accepted the request and showed no token in time"},
	Refused:   {name: "refused", next: true, evidence: breaker.Refused, code: openai.CodeBackendSaturated, reason: "saturated", says: "has no capacity now"},
	Failed:    {name: "failed", next: true, evidence: breaker.Failed, code: openai.CodeUpstreamError, reason: "failed", says: "failed"},
	Invalid:   {name: "invalid_response", next: true, evidence: breaker.Failed, code: openai.CodeResponseInvalid, reason: "failed", says: "sent something that is no answer"},
	Rejected:  {name: "rejected", evidence: breaker.Settled, code: openai.CodeUpstreamRejected},
	TooLong:   {name: "too_long", next: true, evidence: breaker.Settled, code: openai.CodeUpstreamRejected, reason: "spilled"},

	Misconfigured: {name: "misconfigured", next: true, evidence: breaker.Misconfigured, code: openai.CodeUpstreamMisconfigured, reason: "failed", says: "refuses this proxy's credential or address; its operator has to repair that"},
	Forbidden:     {name: "forbidden", next: true, evidence: breaker.Failed, code: openai.CodeUpstreamMisconfigured, reason: "failed", says: "forbids the request; its operator has to look into that"},
	Unsupported:   {name: "unsupported", next: true, evidence: breaker.EndpointMissing, code: openai.CodeUpstreamMisconfigured, reason: "failed", says: "does not serve this endpoint or model; its operator has to repair that"},

	OutOfShare: {name: "out_of_share", next: true, evidence: breaker.Neutral, code: openai.CodeDeadlineExceeded, reason: "spilled", says: "showed no token within its share of the request's time"},
	Cancelled:  {name: "cancelled", evidence: breaker.Neutral},
	Deadline:   {name: "deadline", evidence: breaker.Neutral, code: openai.CodeDeadlineExceeded},
	NoRoom:     {name: "no_room", evidence: breaker.Neutral, code: openai.CodeOverloaded},
	Broken:     {name: "broken", evidence: breaker.Failed, code: openai.CodeStreamFailed},
}

// String is the class's word in metrics, logs and the list of attempts.
func (c Class) String() string { return rules[c].name }

// Outcome is how one attempt ended, with what is needed to act on it.
type Outcome struct {
	Class Class
	// Code replaces the rule's code where the class alone does not say it (which way a stream broke).
	Code openai.Code
	// Status is what the backend answered, or what an error inside its 200 stands for; 0 where nothing came.
	Status int
	// RetryAfter is what the backend asked for; it counts where HasRetryAfter is set.
	RetryAfter    time.Duration
	HasRetryAfter bool
	Quota         bool          // Refused because an account is empty
	Transport     bool          // Failed without an answer
	Slow          time.Duration // Saturated: the limit that was crossed
	// Cause says in our own words what was seen: for logs, free of hosts.
	Cause string
	// Body is the backend's own error body, where the caller gets it.
	Body []byte
}

// ofAnswer maps what an answer says to a class. A status alone never tells Success here: the body does.
var ofAnswer = [...]Class{
	openai.Success: Success, openai.Refused: Refused, openai.Failed: Failed, openai.Invalid: Invalid,
	openai.Rejected: Rejected, openai.TooLong: TooLong, openai.Misconfigured: Misconfigured,
	openai.Forbidden: Forbidden, openai.Unsupported: Unsupported,
}

func outcomeOf(a openai.Answer) Outcome {
	cause := a.Reason
	if a.Status >= http.StatusMultipleChoices {
		cause += " (status " + strconv.Itoa(a.Status) + ")"
	}
	return Outcome{Class: ofAnswer[a.Class], Status: a.Status, RetryAfter: a.RetryAfter, HasRetryAfter: a.HasRetryAfter,
		Quota: a.Quota, Cause: cause}
}

func (o *Outcome) next() bool { return rules[o.Class].next }

// retryable says whether the same backend may be asked again: transport errors and 5xx only.
func (o *Outcome) retryable() bool {
	return o.Class == Failed && (o.Transport || o.Status >= 500)
}

// code is what the caller gets if this was the last attempt.
func (o *Outcome) code() openai.Code {
	if o.Code != "" {
		return o.Code
	}
	return rules[o.Class].code
}

// attemptCode is the code of the attempt alone, finer than what the caller gets in the end.
func (o *Outcome) attemptCode() openai.Code {
	switch {
	case o.Class != Failed:
		return o.code()
	case o.Transport:
		return openai.CodeUpstreamTransportFailed
	case o.Status >= 500:
		return openai.CodeUpstream5xx
	}
	return openai.CodeUpstreamError
}

// saturation says whether the backend was busy, not broken.
func (o *Outcome) saturation() bool { return o.Class == Saturated || o.Class == Refused }

// state is the heartbeat that tells a caller that the attempt was given up.
func (o *Outcome) state() stream.State {
	if o.saturation() {
		return stream.StateBackendSaturated
	}
	return stream.StateBackendFailed
}

// evidence is what the breaker learns.
func (o *Outcome) evidence() breaker.Result {
	return breaker.Result{Kind: rules[o.Class].evidence, RetryAfter: o.RetryAfter, SlowAfter: o.Slow, Quota: o.Quota, Message: o.Cause}
}
