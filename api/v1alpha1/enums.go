package v1alpha1

// Regime is a grouping label for backends: a DNS label of the user's choice; the constants are the usual ones.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="regime must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends."
type Regime string

// Usual regimes.
const (
	RegimeIdle      Regime = "idle"      // the hardware has nothing else to do
	RegimeContended Regime = "contended" // the hardware is also used for something else
	RegimeSaturated Regime = "saturated" // the hardware is usually full; traces also say it of an attempt that met a full backend
	RegimeHosted    Regime = "hosted"    // somebody else's hardware
	RegimeUnknown   Regime = "unknown"   // nothing is said
)

// ServiceScheme is how a Service is spoken to.
//
// +kubebuilder:validation:Enum=http;https
type ServiceScheme string

// Service schemes.
const (
	ServiceSchemeHTTP  ServiceScheme = "http"  // in the clear
	ServiceSchemeHTTPS ServiceScheme = "https" // over TLS, verified as tls says
)

// AuthScheme is how a credential is sent.
//
// +kubebuilder:validation:Enum=Bearer;Header
type AuthScheme string

// Auth schemes.
const (
	AuthSchemeBearer AuthScheme = "Bearer" // Authorization: Bearer <value>
	AuthSchemeHeader AuthScheme = "Header" // <header>: <value>
)

// TLSVerify is how much of a backend's certificate is verified.
//
// +kubebuilder:validation:Enum=Full;None
type TLSVerify string

// TLS verification.
const (
	TLSVerifyFull TLSVerify = "Full" // chain, validity and name
	TLSVerifyNone TLSVerify = "None" // nothing
)

// CARefKind is the kind of object that holds CA certificates.
//
// +kubebuilder:validation:Enum=ConfigMap;Secret
type CARefKind string

// Kinds of CA references.
const (
	CARefConfigMap CARefKind = "ConfigMap" // its data or binaryData
	CARefSecret    CARefKind = "Secret"    // its data
)

// ProbeMode is how a backend is tried again.
//
// +kubebuilder:validation:Enum=Synthetic;Request
type ProbeMode string

// Probe modes.
const (
	ProbeSynthetic ProbeMode = "Synthetic" // the proxy asks one token itself
	ProbeRequest   ProbeMode = "Request"   // the next caller's turn is the probe
)

// HeartbeatForm is how a heartbeat comment is framed.
//
// +kubebuilder:validation:Enum=Line;Block
type HeartbeatForm string

// Heartbeat forms.
const (
	HeartbeatLine  HeartbeatForm = "Line"  // the comment line alone, at an event boundary
	HeartbeatBlock HeartbeatForm = "Block" // followed by an empty line
)

// PreferHeader is what a caller's X-Prefer-Backend header does.
//
// +kubebuilder:validation:Enum=Honor;Ignore
type PreferHeader string

// What the header does.
const (
	PreferHonor  PreferHeader = "Honor"  // the named backend moves to the front
	PreferIgnore PreferHeader = "Ignore" // nothing changes
)

// WhenAllOpen is what happens while every backend is open.
//
// +kubebuilder:validation:Enum=Try;Reject
type WhenAllOpen string

// What happens while every backend is open.
const (
	AllOpenTry    WhenAllOpen = "Try"    // one request at a time goes to the backend that is due first
	AllOpenReject WhenAllOpen = "Reject" // all are turned away
)

// ResponseModel is what a caller sees in "model" of an answer.
//
// +kubebuilder:validation:Enum=Logical;Physical
type ResponseModel string

// What a caller sees.
const (
	ResponseModelLogical  ResponseModel = "Logical"  // the name it asked for
	ResponseModelPhysical ResponseModel = "Physical" // the backend's own
)

// PinMode is what a pin does to the chain.
//
// +kubebuilder:validation:Enum=Prefer;Avoid;Only
type PinMode string

// Pin modes.
const (
	PinPrefer PinMode = "Prefer" // to the front
	PinAvoid  PinMode = "Avoid"  // to the back
	PinOnly   PinMode = "Only"   // nothing else: the one mode that filters
)

// RouteState sums up a route's backends.
//
// +kubebuilder:validation:Enum=Healthy;Saturated;Failing;Degraded;Down;Unknown
type RouteState string

// States of a route.
const (
	RouteHealthy   RouteState = "Healthy"   // no backend is open
	RouteSaturated RouteState = "Saturated" // the backend that would serve by chain order and pins is open: saturation
	RouteFailing   RouteState = "Failing"   // that backend is open: failures
	RouteDegraded  RouteState = "Degraded"  // only a later one is open
	RouteDown      RouteState = "Down"      // all are open, or none is usable
	RouteUnknown   RouteState = "Unknown"   // no live proxy
)

// BackendState is the state of a backend's breaker, or why it has none.
//
// +kubebuilder:validation:Enum=Closed;Open;HalfOpen;Excluded;Unknown
type BackendState string

// States of a backend. Excluded and Unknown appear in status only, never in a report.
const (
	BackendClosed   BackendState = "Closed"   // it serves
	BackendOpen     BackendState = "Open"     // it is passed over until retryAt
	BackendHalfOpen BackendState = "HalfOpen" // one probe is out
	BackendExcluded BackendState = "Excluded" // left out of the table: one of its references does not resolve
	BackendUnknown  BackendState = "Unknown"  // no live proxy
)

// BackendReason is why a breaker is not Closed. The proxies' words (internal/breaker) are the same.
type BackendReason string

// Reasons of a breaker.
const (
	// BackendSaturated surfaces when requests went without a first token past slowAfter.
	BackendSaturated BackendReason = "Saturated"
	// BackendRefused surfaces when the backend said so itself: 429, 529, full, loading. It is a kind of saturation.
	BackendRefused BackendReason = "Refused"
	// BackendQuotaExhausted surfaces when the account's quota is spent: a refusal that does not pass in seconds.
	BackendQuotaExhausted BackendReason = "QuotaExhausted"
	// BackendGroupSaturated surfaces when another backend of the same capacityGroup is saturated.
	BackendGroupSaturated BackendReason = "GroupSaturated"
	// BackendFailing surfaces when answers were wrong or did not come.
	BackendFailing BackendReason = "Failing"
	// BackendMisconfigured surfaces when the backend refuses our credential or our URL.
	BackendMisconfigured BackendReason = "Misconfigured"
	// BackendEndpointMissing surfaces when one endpoint is passed over after a 404, 405 or 501; the breaker is untouched.
	BackendEndpointMissing BackendReason = "EndpointMissing"
)

// PinPhase is where a pin is in its life.
//
// +kubebuilder:validation:Enum=Pending;Active;Ineffective;Expired;Rejected
type PinPhase string

// Phases of a pin.
const (
	PinPending     PinPhase = "Pending"     // it has not started
	PinActive      PinPhase = "Active"      // it is between its start and its end, and changes what at least one route does
	PinIneffective PinPhase = "Ineffective" // it is between its start and its end, and changes nothing: Active says why
	PinExpired     PinPhase = "Expired"     // it has ended
	PinRejected    PinPhase = "Rejected"    // it is not accepted, so it never starts
)
