package v1alpha1

// ConditionType is the type of a condition in status.
type ConditionType string

// ConditionReason is the reason of a condition in status. Each says when it surfaces.
type ConditionReason string

// EventReason is the reason of an Event. Events tell transitions of the folded state and nothing else.
type EventReason string

// Conditions of an LLMRoute.
const (
	// ConditionAccepted is True when the spec makes sense and no better claim holds its model.
	ConditionAccepted ConditionType = "Accepted"
	// ConditionResolvedRefs is True when every Secret, ConfigMap and Service that the route names is there and usable.
	ConditionResolvedRefs ConditionType = "ResolvedRefs"
	// ConditionProgrammed is True when every live proxy serves the observed generation.
	ConditionProgrammed ConditionType = "Programmed"
	// ConditionBackendsAvailable is False only when all backends are open, or none is usable.
	ConditionBackendsAvailable ConditionType = "BackendsAvailable"
	// ConditionReady is computed: Accepted and Programmed and BackendsAvailable.
	ConditionReady ConditionType = "Ready"
)

// ConditionSchemaSkew is there on a route or pin, and True, while something that it sets, or could set, does nothing, because
// the served CRD is older or newer than the manager. It does not hold back Ready: all the rest is served.
const ConditionSchemaSkew ConditionType = "SchemaSkew"

// Reasons of SchemaSkew. Where both hold, CRDOlder is told and the message names all fields.
const (
	// ReasonCRDOlder surfaces when the API server drops fields that the manager knows.
	ReasonCRDOlder ConditionReason = "CRDOlder"
	// ReasonCRDNewer surfaces when the object sets fields that the manager does not know.
	ReasonCRDNewer ConditionReason = "CRDNewer"
)

// Conditions of a BackendPin, beside Accepted.
const (
	// ConditionActive is True while the pin changes what at least one route does.
	ConditionActive ConditionType = "Active"
)

// Reasons of Accepted on a route.
const (
	// ReasonAccepted surfaces when Accepted is True, on routes and pins.
	ReasonAccepted ConditionReason = "Accepted"
	// ReasonModelConflict surfaces when another route holds the model; the message names it.
	ReasonModelConflict ConditionReason = "ModelConflict"
	// ReasonInvalidSpec surfaces when a stored route breaks a rule of the schema that is newer than the object.
	ReasonInvalidSpec ConditionReason = "InvalidSpec"
	// ReasonInvalidDuration surfaces when a stored duration cannot be read; the message names the field.
	ReasonInvalidDuration ConditionReason = "InvalidDuration"
	// ReasonInvalidURL surfaces when a stored backend URL cannot be used; the message names the field, never the host.
	ReasonInvalidURL ConditionReason = "InvalidURL"
	// ReasonTableFull surfaces when the route does not fit into its shard of the table and is left out alone. Where an earlier
	// version of it is served on, Programmed carries the reason, too, and the rest of the status speaks of that version.
	ReasonTableFull ConditionReason = "TableFull"
)

// Reasons of ResolvedRefs.
const (
	// ReasonResolvedRefs surfaces when ResolvedRefs is True.
	ReasonResolvedRefs ConditionReason = "ResolvedRefs"
	// ReasonPartiallyResolved surfaces when several backends are left out for different reasons while others serve.
	ReasonPartiallyResolved ConditionReason = "PartiallyResolved"
	// ReasonSecretNotFound surfaces when a Secret that a backend names is not there.
	ReasonSecretNotFound ConditionReason = "SecretNotFound"
	// ReasonConfigMapNotFound surfaces when a ConfigMap that a backend names is not there.
	ReasonConfigMapNotFound ConditionReason = "ConfigMapNotFound"
	// ReasonServiceNotFound surfaces when a Service that a backend names is not there.
	ReasonServiceNotFound ConditionReason = "ServiceNotFound"
	// ReasonServicePortNotFound surfaces when a Service is there and does not have the port.
	ReasonServicePortNotFound ConditionReason = "ServicePortNotFound"
	// ReasonKeyNotFound surfaces when a Secret or ConfigMap is there and does not have the key.
	ReasonKeyNotFound ConditionReason = "KeyNotFound"
	// ReasonInvalidCredential surfaces when a credential is empty or contains control characters.
	ReasonInvalidCredential ConditionReason = "InvalidCredential"
	// ReasonInvalidCertificate surfaces when a CA bundle or a client pair is not usable PEM.
	ReasonInvalidCertificate ConditionReason = "InvalidCertificate"
)

// Reasons of Programmed.
const (
	// ReasonProgrammed surfaces when every live proxy serves the observed generation.
	ReasonProgrammed ConditionReason = "Programmed"
	// ReasonPending surfaces when a proxy has not yet reported the observed generation, or the manager cannot write the table, so that
	// a route or a pin is not in it; on pins, before their start too.
	ReasonPending ConditionReason = "Pending"
	// ReasonNoProxies surfaces when there is no live proxy: Programmed and BackendsAvailable are Unknown then.
	ReasonNoProxies ConditionReason = "NoProxies"
	// ReasonNotAccepted surfaces when the route or pin is not accepted, so that nothing of it is in the table.
	ReasonNotAccepted ConditionReason = "NotAccepted"
	// ReasonSchemaUnknown surfaces when a live proxy is of another release: it reads another version of the table and keeps what
	// it has, or it writes reports of another version, so that nobody knows what it serves.
	ReasonSchemaUnknown ConditionReason = "SchemaUnknown"
)

// Reasons of BackendsAvailable.
const (
	// ReasonBackendsAvailable surfaces when at least one backend is not open.
	ReasonBackendsAvailable ConditionReason = "BackendsAvailable"
	// ReasonAllBackendsOpen surfaces when all backends are open.
	ReasonAllBackendsOpen ConditionReason = "AllBackendsOpen"
	// ReasonNoUsableBackend surfaces when the chain is empty after leaving out what does not resolve, or when a pin of mode Only
	// allows nothing but a backend that is left out.
	ReasonNoUsableBackend ConditionReason = "NoUsableBackend"
)

// Reasons of Ready.
const (
	// ReasonReady surfaces when Ready is True. When it is not, Ready carries the reason of the condition that holds it back.
	ReasonReady ConditionReason = "Ready"
)

// Reasons of Active, and of Accepted on a pin.
const (
	// ReasonActive surfaces when the pin changes what at least one route does.
	ReasonActive ConditionReason = "Active"
	// ReasonExpired surfaces when the pin has ended.
	ReasonExpired ConditionReason = "Expired"
	// ReasonNoSuchBackend surfaces when no matched route has the pin's backend in its chain.
	ReasonNoSuchBackend ConditionReason = "NoSuchBackend"
	// ReasonNoSuchRoute surfaces when the pin names or selects no route that is there.
	ReasonNoSuchRoute ConditionReason = "NoSuchRoute"
	// ReasonSuperseded surfaces when newer pins overrule this one on every route of it: one of mode Only, where this one is of
	// mode Only too, or more of them than count on one route (32).
	ReasonSuperseded ConditionReason = "Superseded"
	// ReasonInvalidTimes surfaces when start and end make no sense, or a standalone pin has neither startsAt nor expiresAt.
	ReasonInvalidTimes ConditionReason = "InvalidTimes"
	// ReasonTooLong surfaces when the pin lasts longer than the manager allows.
	ReasonTooLong ConditionReason = "TooLong"
	// ReasonInvalidSelector surfaces when the label selector cannot be read.
	ReasonInvalidSelector ConditionReason = "InvalidSelector"
)

// Reasons of Events. The text says what happens now and until when.
const (
	// EventBackendSaturated surfaces when a backend opens because of saturation.
	EventBackendSaturated EventReason = "BackendSaturated"
	// EventBackendFailing surfaces when a backend opens because of failures.
	EventBackendFailing EventReason = "BackendFailing"
	// EventBackendMisconfigured surfaces when a backend refuses our credential or our URL.
	EventBackendMisconfigured EventReason = "BackendMisconfigured"
	// EventBackendRecovered surfaces when an open backend closes.
	EventBackendRecovered EventReason = "BackendRecovered"
	// EventAllBackendsOpen surfaces when the last backend of a route opens.
	EventAllBackendsOpen EventReason = "AllBackendsOpen"
	// EventPinActivated surfaces when a pin starts.
	EventPinActivated EventReason = "PinActivated"
	// EventPinExpired surfaces when a pin ends.
	EventPinExpired EventReason = "PinExpired"
	// EventModelConflict surfaces when a route loses its model to another one.
	EventModelConflict EventReason = "ModelConflict"
)
