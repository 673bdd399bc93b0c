package openai

import (
	"net/http"
	"time"
)

// Error is what a caller is told. Message must hold no host name, credential or prompt text.
type Error struct {
	// Code outside the set is rendered as internal_error with its status and a message that tells nothing.
	Code Code
	// Status overrides the code's default where it is not 0.
	Status  int
	Message string
	Param   string // empty: null

	// RetryAfter becomes the Retry-After header in whole seconds, rounded up, and retry_after_ms; 0: neither.
	RetryAfter time.Duration
	// UpstreamStatus is the status that a backend answered with; 0: left out.
	UpstreamStatus int
	// Attempts lists what was tried, in order; nil: left out.
	Attempts []AttemptNote
}

// AttemptNote is one line of the list of attempts: names and words only, never hosts.
type AttemptNote struct {
	Backend string `json:"backend"`
	Class   string `json:"class"`
}

// Error makes *Error an error: code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// HTTPStatus is the status that the error is answered with.
func (e *Error) HTTPStatus() int { panic("todo") }

// AppendJSON appends the envelope {"error":{...}}.
func (e *Error) AppendJSON(dst []byte) []byte { panic("todo") }

// AppendEvent appends the envelope as a data event, for a stream whose status line has gone. No [DONE] follows it.
func (e *Error) AppendEvent(dst []byte) []byte { panic("todo") }

// WriteError answers with the error: Content-Type, Content-Length, Retry-After where it is set, status and envelope.
// It returns the status. Other headers are the caller's.
func WriteError(w http.ResponseWriter, e *Error) int { panic("todo") }

// AppendRejection appends a backend's own error body with upstream_status put inside its error object, every other
// byte unchanged. A body that is no error object of that shape is wrapped into an envelope with the code
// upstream_request_rejected, and its text stays behind.
func AppendRejection(dst, body []byte, status int) []byte { panic("todo") }
