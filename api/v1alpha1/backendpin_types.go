package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AnnotationPinnedBy names the user who made a pin, or who last changed its spec. An admission policy writes it, where
// the cluster serves MutatingAdmissionPolicy v1; nobody can forge it.
const AnnotationPinnedBy = "spillway.dev/pinned-by"

// BackendPin moves one backend to the front or the back of the chains of some routes, or allows nothing else, for a
// limited time. Deleting it ends it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=backendpins,singular=backendpin,shortName=bpin;pins,categories=spillway
// +kubebuilder:printcolumn:name="Backend",type=string,JSONPath=`.spec.backend`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Routes",type=string,JSONPath=`.status.scope`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.metadata.annotations.spillway\.dev/pinned-by`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BackendPin struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the pin should do. The routes, the backend and the mode are immutable; the times and the reason are not.
	// +required
	Spec BackendPinSpec `json:"spec"`

	// status is what the pin does. Only the manager writes it.
	// +optional
	Status BackendPinStatus `json:"status,omitzero"`
}

// BackendPinList is a list of BackendPins.
//
// +kubebuilder:object:root=true
type BackendPinList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackendPin `json:"items"`
}

// BackendPinSpec is what a pin should do.
//
// +kubebuilder:validation:XValidation:rule="has(self.duration) != has(self.expiresAt)",message="Set exactly one of duration and expiresAt: a pin always ends."
// +kubebuilder:validation:XValidation:rule="!has(self.startsAt) || !has(self.expiresAt) || self.expiresAt > self.startsAt",message="expiresAt must be later than startsAt."
type BackendPinSpec struct {
	// routes of this namespace that the pin applies to. Immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="routes is immutable: delete the pin and make another."
	// +required
	Routes PinRoutes `json:"routes"`

	// backend is a name in the routes' chains. The pin does nothing on a route without it. Immutable.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="backend is immutable: delete the pin and make another."
	// +required
	Backend string `json:"backend"`

	// mode is Prefer (to the front), Avoid (to the back) or Only (nothing else). Immutable.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="mode is immutable: delete the pin and make another."
	// +required
	Mode PinMode `json:"mode"`

	// startsAt is when the pin starts. Default: when it was created.
	// +optional
	StartsAt *metav1.Time `json:"startsAt,omitempty"`

	// duration counts from startsAt. Exactly one of duration and expiresAt is set.
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="duration must be longer than 0s."
	// +optional
	Duration Duration `json:"duration,omitempty"`

	// expiresAt is when the pin ends. Exactly one of duration and expiresAt is set.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// reason tells people why; it is shown in status, events and logs.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Reason string `json:"reason,omitempty"`
}

// PinRoutes names routes of the pin's own namespace, or selects them by label.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.selector)",message="Set exactly one of names and selector."
type PinRoutes struct {
	// names of routes.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Names []string `json:"names,omitempty"`

	// selector of routes by their labels. An empty one selects every route of the namespace.
	// +optional
	Selector *RouteSelector `json:"selector,omitempty"`
}

// BackendPinStatus is what a pin does.
type BackendPinStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// phase is where the pin is in its life.
	// +optional
	Phase PinPhase `json:"phase,omitempty"`

	// startsAt is the start in force.
	// +optional
	StartsAt *metav1.Time `json:"startsAt,omitempty"`

	// expiresAt is the end in force.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// matchedRoutes is how many routes the pin names or selects and that exist.
	// +optional
	MatchedRoutes int32 `json:"matchedRoutes"`

	// routes lists the matched routes whose chain has the backend, sorted; the first 64.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	Routes []string `json:"routes,omitempty"`

	// routesWithoutBackend lists the matched routes on which the pin does nothing, as their chain lacks the backend,
	// sorted; the first 64.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	RoutesWithoutBackend []string `json:"routesWithoutBackend,omitempty"`

	// scope is routes in one line, for the ROUTES column: "default", or "default, fast, +3".
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Scope string `json:"scope,omitempty"`

	// conditions are Accepted and Active.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
