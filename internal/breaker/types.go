package breaker

import (
	"context"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// State of a breaker.
type State string

// The states of a breaker.
const (
	Closed   State = "Closed"   // in use
	Open     State = "Open"     // passed over until retryAt, and after it until a probe succeeds
	HalfOpen State = "HalfOpen" // one probe is out; everybody else is refused
)

// Reason says why a breaker is not Closed, or why a pair of backend and endpoint is passed over.
type Reason string

// The reasons. Saturation and failure are told apart by Reason.Saturation.
const (
	// ReasonNone goes with Closed.
	ReasonNone Reason = ""
	// ReasonSaturated surfaces when requests were accepted and went quiet, threshold times in a row.
	ReasonSaturated Reason = "Saturated"
	// ReasonRefused surfaces when the backend itself said that it has no capacity now (429, 529, full, loading).
	ReasonRefused Reason = "Refused"
	// ReasonQuota surfaces when the account's quota is spent; a kind of refusal that does not pass in seconds.
	ReasonQuota Reason = "QuotaExhausted"
	// ReasonGroupSaturated surfaces when another backend of the same capacity group is saturated.
	ReasonGroupSaturated Reason = "GroupSaturated"
	// ReasonFailing surfaces when requests got wrong or no answers, threshold times in a row.
	ReasonFailing Reason = "Failing"
	// ReasonMisconfigured surfaces when the backend refused our credentials or redirected us.
	ReasonMisconfigured Reason = "Misconfigured"
	// ReasonEndpointMissing surfaces when the backend does not serve one endpoint; its breaker is untouched.
	ReasonEndpointMissing Reason = "EndpointMissing"
)

// Saturation says whether the reason is a kind of saturation: busy, not broken.
func (r Reason) Saturation() bool {
	switch r {
	case ReasonSaturated, ReasonRefused, ReasonQuota, ReasonGroupSaturated:
		return true
	}
	return false
}

// Mode is how a request asks for admission.
type Mode int

// The modes of admission.
const (
	// Normal is admitted by a closed breaker. An open one whose retryAt has passed and that waits for a caller's turn
	// (recovery.probe: Request) admits it as its single probe.
	Normal Mode = iota
	// LastResort (whenAllOpen: Try) is also admitted by an open breaker, at any time, one at a time, as a probe.
	LastResort
)

// Kind is what an attempt's end means to the breaker.
type Kind int

// The kinds of results, in the words of the outcome table.
const (
	// Neutral says nothing about the backend: cancelled, out of its share, budget spent before slowAfter.
	Neutral Kind = iota
	// Success is a good answer: clears both counts, closes the breaker when it was the probe.
	Success
	// Settled is an answer about the request and not about the backend (Rejected, TooLong): it is there.
	Settled
	// Silent crossed slowAfter without a first token: saturation +1.
	Silent
	// Refused is an explicit refusal for want of capacity: opens at once, uncounted, for RetryAfter.
	Refused
	// Failed is a wrong answer or none: failure +1. Broken streams and 403 are Failed too.
	Failed
	// Misconfigured (401, 402, redirect) opens at once for the failure cooldown.
	Misconfigured
	// EndpointMissing (404, 405, 501) marks only the pair of backend and endpoint, for the failure cooldown.
	EndpointMissing
)

// Result is how one attempt ended.
type Result struct {
	Kind Kind
	// RetryAfter is what a Refused backend asked for; 0 is nothing. Negative counts as nothing, more than MaxRetryAfter
	// as MaxRetryAfter.
	RetryAfter time.Duration
	// Quota marks a Refused answer that says insufficient_quota: the saturation cooldown holds.
	Quota bool
	// SlowAfter is the limit that a Silent attempt crossed; 0 stands for the backend's own slowAfter.
	SlowAfter time.Duration
	// Message is one sentence for status, for example "no first token within 20s". It names no host, credential or
	// prompt. Empty: a sentence by kind.
	Message string
}

// MaxRetryAfter bounds what a backend may ask for with Retry-After.
const MaxRetryAfter = 24 * time.Hour

// SuspicionAfter is how long an attempt must have waited for its first token before its early end raises suspicion.
const SuspicionAfter = 5 * time.Second

// View is what planning needs to know of one backend and one endpoint.
type View struct {
	State  State
	Reason Reason
	// Remaining is the time to retryAt; 0 when it has passed, and for Closed.
	Remaining time.Duration
	// Usable says that a Normal request would be admitted now, be it as the probe.
	Usable bool
	// Message is the sentence of the last event that opened the breaker or marked the pair.
	Message string
}

// Purpose is why the proxy itself asks a backend.
type Purpose string

// The purposes of a synthetic request.
const (
	// Recovery finds out at the end of a cooldown whether the backend is well again.
	Recovery Purpose = "recovery"
	// Suspicion finds out whether a backend is silent whose callers leave before slowAfter.
	Suspicion Purpose = "suspicion"
	// ColdStart lets a cold model load: one request left to finish within coldStartGrace.
	ColdStart Purpose = "cold-start"
)

// ProbeRequest asks for one synthetic request, as small as the endpoint's dialect allows.
type ProbeRequest struct {
	ID table.BackendID
	// Backend is the table's entry for ID, of the first route by key that names it. It must not be changed.
	Backend *table.Backend
	// Endpoint is the dialect that last failed, as callers of Admit name it; DefaultEndpoint where none did.
	Endpoint string
	Purpose  Purpose
	// Bound limits the wait for the first token. The context given to Probe ends then too.
	Bound time.Duration
}

// DefaultEndpoint is probed where no endpoint is known to have failed: a report need not name one.
const DefaultEndpoint = "/v1/chat/completions"

// Prober sends synthetic requests. Probe returns Success with the first token, without reading on, and Neutral when ctx
// ends. A probe answered 400 is tried once more with max_completion_tokens by the prober; rejected again it is Settled.
type Prober interface {
	Probe(ctx context.Context, r ProbeRequest) Result
}

// Transition is one change of a breaker's state, for metrics and logs. From and To are equal when a breaker that is open
// already opens for another reason.
type Transition struct {
	ID table.BackendID
	// Namespace and Names are those of the routes and chains that name the backend; Names is sorted.
	Namespace string
	Names     []string
	Group     string // "namespace/capacityGroup", or empty
	From, To  State
	Reason    Reason // of the opening; for To Closed, of what is over
	Message   string
	RetryAt   time.Time // wall time; zero for Closed
	Adopted   bool      // learned from another proxy
}

// Record is the evidence on one backend as it travels between proxies and to the manager.
type Record struct {
	ID     table.BackendID
	State  State
	Reason Reason
	// Since is the wall time of the last transition, for people. It orders nothing.
	Since time.Time
	// Remaining is the time to retryAt; 0 for Closed.
	Remaining time.Duration
	// Epoch is a Lamport counter per id: a transition takes 1 + the highest seen.
	Epoch uint64
	// Saturations and Failures are the reporting proxy's own consecutive counts.
	Saturations, Failures int
	// LastGood is a Lamport counter per id: a good answer that clears a known count takes 1 + the highest seen. Counts
	// add up only where they carry the highest one known.
	LastGood uint64
	// Refusals is how often the cooldown for refusals without a Retry-After has been doubled.
	Refusals int
	// Extensions is how often the proxy's own late evidence, of requests admitted before the opening, has made the opening of this
	// epoch longer. Peers take Remaining again where it has changed.
	Extensions int
	Message    string
	// Endpoint is the dialect that last failed, for whoever probes; empty where none is known.
	Endpoint string
	// AwaitsCaller says that only a caller's request can tell whether the backend is well, after a settled answer to a probe.
	AwaitsCaller bool
	// Endpoints lists the pairs that the reporting proxy passes over, sorted by endpoint. They inform status and are not
	// adopted.
	Endpoints []EndpointRecord
}

// EndpointRecord is one pair of backend and endpoint that is passed over.
type EndpointRecord struct {
	Endpoint  string
	Remaining time.Duration
	Message   string
}
