package v1alpha1

// FailurePolicy is the breaker class for wrong or no answers.
type FailurePolicy struct {
	// threshold is how many consecutive failures open the breaker.
	// +kubebuilder:default=5
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="threshold must be at least 1."
	// +optional
	Threshold int32 `json:"threshold,omitempty"`

	// cooldown is how long the breaker stays open before the backend is tried again.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="cooldown must be longer than 0s."
	// +optional
	Cooldown Duration `json:"cooldown,omitempty"`
}

// FailureOverride is FailurePolicy for one backend: a field that is absent is inherited from the route.
type FailureOverride struct {
	// threshold is how many consecutive failures open the breaker.
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="threshold must be at least 1."
	// +optional
	Threshold *int32 `json:"threshold,omitempty"`

	// cooldown is how long the breaker stays open before the backend is tried again.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="cooldown must be longer than 0s."
	// +optional
	Cooldown *Duration `json:"cooldown,omitempty"`
}

// SaturationPolicy is the breaker class for requests that were accepted and went quiet.
type SaturationPolicy struct {
	// threshold is how many consecutive silences open the breaker. Each one costs a caller a whole slow wait.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="threshold must be at least 1."
	// +optional
	Threshold int32 `json:"threshold,omitempty"`

	// cooldown is how long the breaker stays open before the backend is tried again.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="cooldown must be longer than 0s."
	// +optional
	Cooldown Duration `json:"cooldown,omitempty"`

	// slowAfter is how long a streaming attempt may go without its first token. 0s turns detection off.
	// Default: 30s where the chain has more than one backend, else 0s.
	// +optional
	SlowAfter Duration `json:"slowAfter,omitempty"`

	// nonStreamingSlowAfter bounds the whole of a non-streaming attempt, which shows no first token. 0s turns it off.
	// Default: the larger of 10m and slowAfter; 0s where slowAfter is 0s.
	// +optional
	NonStreamingSlowAfter Duration `json:"nonStreamingSlowAfter,omitempty"`

	// slowAfterPerKilotoken is extra allowance per 1,000 prompt tokens (bytes/4), so that a long prefill is not a stall.
	// +kubebuilder:default="0s"
	// +optional
	SlowAfterPerKilotoken Duration `json:"slowAfterPerKilotoken,omitempty"`

	// coldStartGrace lets one request of the proxy's own run on after slowAfter, so that a cold model can load. 0s is off.
	// +kubebuilder:default="2m"
	// +optional
	ColdStartGrace Duration `json:"coldStartGrace,omitempty"`
}

// SaturationOverride is SaturationPolicy for one backend: a field that is absent is inherited from the route.
type SaturationOverride struct {
	// threshold is how many consecutive silences open the breaker.
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="threshold must be at least 1."
	// +optional
	Threshold *int32 `json:"threshold,omitempty"`

	// cooldown is how long the breaker stays open before the backend is tried again.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="cooldown must be longer than 0s."
	// +optional
	Cooldown *Duration `json:"cooldown,omitempty"`

	// slowAfter is how long a streaming attempt may go without its first token. 0s turns detection off.
	// +optional
	SlowAfter *Duration `json:"slowAfter,omitempty"`

	// nonStreamingSlowAfter bounds the whole of a non-streaming attempt. 0s turns it off.
	// +optional
	NonStreamingSlowAfter *Duration `json:"nonStreamingSlowAfter,omitempty"`

	// slowAfterPerKilotoken is extra allowance per 1,000 prompt tokens (bytes/4).
	// +optional
	SlowAfterPerKilotoken *Duration `json:"slowAfterPerKilotoken,omitempty"`

	// coldStartGrace lets one request of the proxy's own run on after slowAfter. 0s is off.
	// +optional
	ColdStartGrace *Duration `json:"coldStartGrace,omitempty"`
}

// RecoveryPolicy says how a backend is tried again at the end of its cooldown.
type RecoveryPolicy struct {
	// probe is Synthetic (the proxy asks one token itself) or Request (the next caller's turn is the probe).
	// +kubebuilder:default=Synthetic
	// +optional
	Probe ProbeMode `json:"probe,omitempty"`
}

// Timeouts of one request.
type Timeouts struct {
	// request is the whole budget over queue, attempts and fallbacks. 0s is none.
	// +kubebuilder:default="0s"
	// +optional
	Request Duration `json:"request,omitempty"`

	// connect bounds dialing and the TLS handshake of one attempt. 0s is none.
	// +kubebuilder:default="5s"
	// +optional
	Connect Duration `json:"connect,omitempty"`

	// idle bounds silence after the first token. 0s is none.
	// +kubebuilder:default="2m"
	// +optional
	Idle Duration `json:"idle,omitempty"`
}

// RetryPolicy allows further tries at the same backend before the next one.
type RetryPolicy struct {
	// attempts is how many further tries there are.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	Attempts int32 `json:"attempts,omitempty"`

	// backoff is the pause before a further try.
	// +kubebuilder:default="250ms"
	// +optional
	Backoff Duration `json:"backoff,omitempty"`
}

// Heartbeat configures the comments that tell a streaming caller what it waits for.
type Heartbeat struct {
	// interval without output after which the current state is repeated. 0s: no keepalives; comments on a change of state stay.
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) == duration('0s') || duration(self) >= duration('1s')",message="interval must be 0s (no keepalives) or at least 1s."
	// +optional
	Interval Duration `json:"interval,omitempty"`

	// commitAfter is how long the status line and the comments before it are held back, so that an early error keeps its
	// own HTTP status.
	// +kubebuilder:default="1s"
	// +optional
	CommitAfter Duration `json:"commitAfter,omitempty"`

	// form is Line (the comment line alone, at an event boundary) or Block (followed by an empty line).
	// +kubebuilder:default=Line
	// +optional
	Form HeartbeatForm `json:"form,omitempty"`
}

// RateLimit is the token bucket of a route, shared by all proxies: requests per span, and burst at once.
type RateLimit struct {
	// requests per span. 0 turns the limit off.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Requests *int32 `json:"requests,omitempty"`

	// per is the span, from 1s to 1h.
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="per must be between 1s and 1h."
	// +optional
	Per Duration `json:"per,omitempty"`

	// burst is how many requests may come at once.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Burst int32 `json:"burst,omitempty"`
}

// QueuePolicy bounds the callers that wait for a backend with maxInFlight.
type QueuePolicy struct {
	// length is how many callers may wait for one backend in one proxy. 0: none waits.
	// +kubebuilder:default=32
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Length *int32 `json:"length,omitempty"`

	// maxWait is how long one waits before it spills to the next backend.
	// +kubebuilder:default="30s"
	// +optional
	MaxWait Duration `json:"maxWait,omitempty"`
}
