package openai

// Code is a word of the closed set that callers see in error.code.
type Code string

// Codes, in the order of the stages at which they arise.
const (
	CodeInvalidRequest      Code = "invalid_request"
	CodeRequestTooLarge     Code = "request_too_large"
	CodeUnsupportedEncoding Code = "unsupported_encoding"
	CodeUnauthenticated     Code = "unauthenticated"
	CodeForbidden           Code = "forbidden"
	CodeModelNotFound       Code = "model_not_found"
	CodeModelUnavailable    Code = "model_unavailable"
	CodeRateLimited         Code = "rate_limited"     // the route's token bucket is empty
	CodeRateLimitError      Code = "rate_limit_error" // every queue is full
	CodeOverloaded          Code = "overloaded"       // byte budget spent, or shutting down

	CodeDeadlineExceeded Code = "request_deadline_exceeded"
	CodeBackendSaturated Code = "backend_saturated"

	CodeUpstreamRejected        Code = "upstream_request_rejected"
	CodeUpstreamMisconfigured   Code = "upstream_misconfigured"
	CodeUpstreamTransportFailed Code = "upstream_transport_failed" // attempts only: spans and metrics
	CodeUpstream5xx             Code = "upstream_5xx"              // attempts only: spans and metrics
	CodeUpstreamError           Code = "upstream_error"
	CodeResponseInvalid         Code = "response_validation_failed"

	CodeStreamIncomplete Code = "stream_incomplete"
	CodeStreamFailed     Code = "stream_failed"
	CodeStreamIdle       Code = "stream_idle"

	CodeClientClosed  Code = "client_closed_request" // logs and metrics only
	CodeInternalError Code = "internal_error"
)

// Codes returns the whole set, in the order of the stages.
func Codes() []Code { panic("todo") }

// Status is the code's default HTTP status; 0 for those that have none of their own.
func (c Code) Status() int { panic("todo") }

// Type is error.type for the code: invalid_request_error, rate_limit_error and so on.
func (c Code) Type() string { panic("todo") }
