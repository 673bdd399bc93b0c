package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LLMRoute gives one logical model name to an ordered chain of OpenAI-compatible backends. When a backend fails, or
// accepts a request and goes quiet, the request spills over to the next one, and so do the requests after it, until the
// backend is well again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=llmroutes,singular=llmroute,shortName=llmr,categories=spillway
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.status.model`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.serving`
// +kubebuilder:printcolumn:name="Pinned",type=string,JSONPath=`.status.pinned`
// +kubebuilder:printcolumn:name="Proxies",type=string,JSONPath=`.status.proxies`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Chain",type=string,priority=1,JSONPath=`.status.chain`
// +kubebuilder:printcolumn:name="Retry",type=string,priority=1,JSONPath=`.status.retryAt`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.reason`
type LLMRoute struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the route should do.
	// +required
	Spec LLMRouteSpec `json:"spec"`

	// status is what the proxies do, as far as the manager knows. Only the manager writes it.
	// +optional
	Status LLMRouteStatus `json:"status,omitzero"`
}

// LLMRouteList is a list of LLMRoutes.
//
// +kubebuilder:object:root=true
type LLMRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LLMRoute `json:"items"`
}

// LLMRouteSpec is what a route should do. A zero block (struct) means that its defaults are in force.
type LLMRouteSpec struct {
	// model is what callers put into "model"; the match is exact. Default: <namespace>/<name> of this route.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.matches('[\\\\x00-\\\\x1f\\\\x7f]')",message="model must not contain control characters."
	// +optional
	Model string `json:"model,omitempty"`

	// chain lists the backends, most preferred first. Names are unique.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +required
	Chain []Backend `json:"chain"`

	// failure is the breaker class for wrong or no answers.
	// +kubebuilder:default={}
	// +optional
	Failure FailurePolicy `json:"failure,omitzero"`

	// saturation is the breaker class for requests that a backend accepted and then left without a first token.
	// +kubebuilder:default={}
	// +optional
	Saturation SaturationPolicy `json:"saturation,omitzero"`

	// recovery says how a backend is tried again at the end of its cooldown.
	// +kubebuilder:default={}
	// +optional
	Recovery RecoveryPolicy `json:"recovery,omitzero"`

	// timeouts bound one request.
	// +kubebuilder:default={}
	// +optional
	Timeouts Timeouts `json:"timeouts,omitzero"`

	// retry allows further tries at the same backend before the next one; for transport errors and 5xx only.
	// +kubebuilder:default={}
	// +optional
	Retry RetryPolicy `json:"retry,omitzero"`

	// heartbeat configures the comments that tell a streaming caller what it waits for.
	// +kubebuilder:default={}
	// +optional
	Heartbeat Heartbeat `json:"heartbeat,omitzero"`

	// rateLimit bounds the requests to this route over the whole fleet. A request over it gets 429.
	// +kubebuilder:default={}
	// +optional
	RateLimit RateLimit `json:"rateLimit,omitzero"`

	// queue bounds the callers that wait for a backend with maxInFlight; then they spill to the next backend.
	// +kubebuilder:default={}
	// +optional
	Queue QueuePolicy `json:"queue,omitzero"`

	// preferHeader says whether a caller's X-Prefer-Backend header counts.
	// +kubebuilder:default=Honor
	// +optional
	PreferHeader PreferHeader `json:"preferHeader,omitempty"`

	// whenAllOpen says what happens while every backend is open. Try lets one request at a time through to the backend
	// that is due first; Reject turns all away.
	// +kubebuilder:default=Try
	// +optional
	WhenAllOpen WhenAllOpen `json:"whenAllOpen,omitempty"`

	// responseModel says what the caller sees in "model" of an answer: the logical name or the backend's own.
	// +kubebuilder:default=Logical
	// +optional
	ResponseModel ResponseModel `json:"responseModel,omitempty"`
}

// LLMRouteStatus is what the proxies do with a route. Nothing in it changes while nothing happens: counters that move
// with traffic are metrics.
type LLMRouteStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// model is the logical name in force.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Model string `json:"model,omitempty"`

	// state sums up the backends as all live proxies see them.
	// +optional
	State RouteState `json:"state,omitempty"`

	// serving is the backend that a request would be sent to first, now.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Serving string `json:"serving,omitempty"`

	// pinned names the pin in force in one line: backend, end and pin, "hosted until 2026-08-13T23:00:00Z (game-night)".
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Pinned string `json:"pinned,omitempty"`

	// proxies is "serving/live": the live proxies that serve the observed generation, of all live ones.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Proxies string `json:"proxies,omitempty"`

	// chain is the chain in one line, an open backend marked with an exclamation mark: "tower!,hosted".
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Chain string `json:"chain,omitempty"`

	// retryAt is when the first of the open backends is tried again. Absent while none is open.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`

	// reason says in one word why state or Ready is not as it should be; empty while all is well.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// backends lists the backends in the order of the chain.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Backends []BackendStatus `json:"backends,omitempty"`

	// conditions are Accepted, ResolvedRefs, Programmed, BackendsAvailable and Ready.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BackendStatus is one backend as all live proxies see it: the state with the highest epoch among their reports.
type BackendStatus struct {
	// name in the chain.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Name string `json:"name"`

	// state of the backend's breaker, or why it has none.
	// +required
	State BackendState `json:"state"`

	// reason why the state is not Closed: a BackendReason, or for an Excluded backend the reason of ResolvedRefs.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`

	// since is when the state was entered.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// retryAt is when the backend is tried again.
	// +optional
	RetryAt *metav1.Time `json:"retryAt,omitempty"`

	// proxies is "agreeing/live": the live proxies that see this state, of all live ones.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Proxies string `json:"proxies,omitempty"`

	// message is a sentence for people: "no first token within 20s". It names no host.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Message string `json:"message,omitempty"`
}
