package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReportSchema is the version of the contract in ProxyReportStatus. A reader ignores reports of another one.
const ReportSchema int32 = 1

// ProxyReport is INTERNAL: a contract between the proxies and the manager of one release, that may change in any
// release. Do not write it and do not build on it; LLMRoute status says the same for people.
//
// Each proxy writes its own, named after its pod. It has no status subresource: with one, a proxy would need two
// requests and two permissions to publish what it knows (the create drops the status), and nothing but status is in it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=proxyreports,singular=proxyreport,shortName=preport
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Draining",type=boolean,JSONPath=`.status.draining`
// +kubebuilder:printcolumn:name="Breakers",type=string,priority=1,JSONPath=`.status.breakers[*].state`
// +kubebuilder:printcolumn:name="Renewed",type=date,JSONPath=`.status.renewTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ProxyReport struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is what the proxy says of itself. Internal.
	// +optional
	Status ProxyReportStatus `json:"status,omitzero"`
}

// ProxyReportList is a list of ProxyReports.
//
// +kubebuilder:object:root=true
type ProxyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProxyReport `json:"items"`
}

// ProxyReportStatus is what a proxy says of itself. It is written when something changes (an opening or a closing at once, the
// rest at most once a second) and refreshed every 15 s. A reader that sees no new renewTime for 45 s on its own
// clock takes the proxy for dead.
type ProxyReportStatus struct {
	// pod is the name of the proxy's pod.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Pod string `json:"pod,omitempty"`

	// schema is the version of this contract, ReportSchema of the writer.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Schema int32 `json:"schema,omitempty"`

	// tableSchema is the version of the table that the writer reads. Absent: 1. A proxy that finds another one published keeps
	// what it has, and by this the manager knows why.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TableSchema int32 `json:"tableSchema,omitempty"`

	// renewTime is the writer's wall clock at this write. It changes with each write and orders nothing.
	// +optional
	RenewTime metav1.MicroTime `json:"renewTime,omitempty,omitzero"`

	// tables are the shards that the proxy serves from. A shard that it has not read is absent.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=shard
	// +optional
	Tables []TableRevision `json:"tables,omitempty"`

	// ready says that all shards are read and the reports of the others adopted.
	// +optional
	Ready bool `json:"ready"`

	// draining says that the proxy is about to go: it counts neither for shares and probing nor for Programmed.
	// +optional
	Draining bool `json:"draining"`

	// breakers lists what is worth telling: breakers that are not Closed, that have a count, that closed within their last
	// cooldown, or with an endpoint that is passed over. An absence says nothing.
	// +kubebuilder:validation:MaxItems=2048
	// +listType=map
	// +listMapKey=id
	// +optional
	Breakers []BreakerReport `json:"breakers,omitempty"`
}

// TableRevision is one shard of the routing table as a proxy serves it.
type TableRevision struct {
	// shard is the number of the shard, 0 to 31.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31
	// +required
	Shard int32 `json:"shard"`

	// revision is the hash of the shard's canonical bytes.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Revision string `json:"revision"`
}

// BreakerReport is what one proxy knows of one backend.
type BreakerReport struct {
	// id of the backend: the salted hash from the table. It tells nothing of the credential.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	ID string `json:"id"`

	// state of the breaker: Closed, Open or HalfOpen.
	// +required
	State BackendState `json:"state"`

	// reason why it is or was not Closed.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason BackendReason `json:"reason,omitempty"`

	// since is the wall time of the last transition, for people.
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// remaining is the time left at this write until the backend is tried again. Readers bound it by their own cooldown.
	// +optional
	Remaining Duration `json:"remaining,omitempty"`

	// epoch is a Lamport counter of transitions per id: a transition takes 1 + the highest epoch seen anywhere.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// saturations is the writer's own count of consecutive silences since lastGood.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Saturations int32 `json:"saturations,omitempty"`

	// failures is the writer's own count of consecutive failures since lastGood.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// lastGood is a Lamport counter of the good answers that cleared a count. Counts in reports with an older one than
	// the highest known are void. Wall time orders nothing.
	// +kubebuilder:validation:Minimum=0
	// +optional
	LastGood int64 `json:"lastGood,omitempty"`

	// refusals is how often the cooldown of a backend that refuses without a Retry-After has been doubled: once for each probe that
	// failed.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Refusals int32 `json:"refusals,omitempty"`

	// extensions is how often answers to requests of before the opening have made it longer since its epoch. The others take what
	// remains again where this has changed.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Extensions int32 `json:"extensions,omitempty"`

	// message is a sentence for people. It names no host and quotes no answer.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`

	// endpoint is the one that last failed, such as "embeddings": whoever probes asks in its dialect. Empty where none is known.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Endpoint string `json:"endpoint,omitempty"`

	// probe is Request where the next caller's request is to be the probe, at any proxy, since a request of the proxies' own was
	// rejected. Absent elsewhere.
	// +optional
	Probe ProbeMode `json:"probe,omitempty"`

	// endpoints of this backend that are passed over after a 404, 405 or 501.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=endpoint
	// +optional
	Endpoints []EndpointReport `json:"endpoints,omitempty"`
}

// EndpointReport is one endpoint of one backend that is passed over.
type EndpointReport struct {
	// endpoint is the path without the API's base, such as "embeddings".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Endpoint string `json:"endpoint"`

	// remaining is the time left at this write until it is asked again.
	// +required
	Remaining Duration `json:"remaining"`
}
