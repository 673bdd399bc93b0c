package openai

import "net/http"

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

// statusClientClosed is what logs and metrics say of a caller that left; it never goes over the wire.
const statusClientClosed = 499

// Words of error.type, as OpenAI's clients know them.
const (
	typeInvalidRequest  = "invalid_request_error"
	typeAuthentication  = "authentication_error"
	typePermission      = "permission_error"
	typeRateLimit       = "rate_limit_error"
	typeServer          = "server_error"
	typeUpstream        = "upstream_error"
	typeOverloaded      = "overloaded_error"
	typeDeadlineElapsed = "timeout_error"
)

// codes is the table of the closed set. Status 0: the code has none of its own, because it stands for a backend's
// status, names an attempt, or arises when the status line has gone.
var codes = [...]struct {
	code      Code
	status    int
	errorType string
}{
	{CodeInvalidRequest, http.StatusBadRequest, typeInvalidRequest},
	{CodeRequestTooLarge, http.StatusRequestEntityTooLarge, typeInvalidRequest},
	{CodeUnsupportedEncoding, http.StatusUnsupportedMediaType, typeInvalidRequest},
	{CodeUnauthenticated, http.StatusUnauthorized, typeAuthentication},
	{CodeForbidden, http.StatusForbidden, typePermission},
	{CodeModelNotFound, http.StatusNotFound, typeInvalidRequest},
	{CodeModelUnavailable, http.StatusServiceUnavailable, typeServer},
	{CodeRateLimited, http.StatusTooManyRequests, typeRateLimit},
	{CodeRateLimitError, http.StatusTooManyRequests, typeRateLimit},
	{CodeOverloaded, http.StatusServiceUnavailable, typeOverloaded},

	{CodeDeadlineExceeded, http.StatusGatewayTimeout, typeDeadlineElapsed},
	{CodeBackendSaturated, http.StatusServiceUnavailable, typeOverloaded},

	{CodeUpstreamRejected, 0, typeInvalidRequest},
	{CodeUpstreamMisconfigured, http.StatusBadGateway, typeUpstream},
	{CodeUpstreamTransportFailed, 0, typeUpstream},
	{CodeUpstream5xx, 0, typeUpstream},
	{CodeUpstreamError, http.StatusBadGateway, typeUpstream},
	{CodeResponseInvalid, http.StatusBadGateway, typeUpstream},

	{CodeStreamIncomplete, 0, typeUpstream},
	{CodeStreamFailed, 0, typeUpstream},
	{CodeStreamIdle, 0, typeUpstream},

	{CodeClientClosed, statusClientClosed, typeInvalidRequest},
	{CodeInternalError, http.StatusInternalServerError, typeServer},
}

// Codes returns the whole set, in the order of the stages.
func Codes() []Code {
	out := make([]Code, len(codes))
	for i := range codes {
		out[i] = codes[i].code
	}
	return out
}

// Known says whether the code belongs to the closed set.
func (c Code) Known() bool {
	for i := range codes {
		if codes[i].code == c {
			return true
		}
	}
	return false
}

// Status is the code's default HTTP status; 0 for those that have none of their own.
func (c Code) Status() int {
	for i := range codes {
		if codes[i].code == c {
			return codes[i].status
		}
	}
	return http.StatusInternalServerError
}

// Type is error.type for the code: invalid_request_error, rate_limit_error and so on.
func (c Code) Type() string {
	for i := range codes {
		if codes[i].code == c {
			return codes[i].errorType
		}
	}
	return typeServer
}
