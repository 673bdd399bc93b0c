package openai

import (
	"net/http"
	"time"
)

// Class says what kind of answer a backend gave, as far as the answer itself tells. Silence, transport errors, budgets
// and leaving callers are the proxy's to know.
type Class uint8

// Classes, in the order of the outcome table in the design of the request path.
const (
	// Success is an answer.
	Success Class = iota
	// Refused: full, loading or throttling; RetryAfter and Quota say for how long.
	Refused
	// Failed: the backend's own fault (5xx, 408, 425, 499, 52x and statuses that do not exist).
	Failed
	// Invalid is a 2xx that is no answer: HTML, empty choices, half a body, an error without a known code.
	Invalid
	// Rejected is settled: an identical body cannot do better elsewhere.
	Rejected
	// TooLong: the prompt does not fit into this backend's context window.
	TooLong
	// Misconfigured: our credential, our account or our URL (401, 402, redirects).
	Misconfigured
	// Forbidden is Misconfigured by a 403, which may be about this one prompt.
	Forbidden
	// Unsupported is Misconfigured for this endpoint only (404, 405, 501).
	Unsupported
)

// String is the class's word in tests and spans.
func (c Class) String() string { panic("todo") }

// Answer is what a status, a body or an error event says.
type Answer struct {
	Class Class
	// Status is the response's status, or the one that an error inside a 200 carries or stands for; 0: unknown.
	Status int
	// RetryAfter is how long the backend asked to be left alone, within [0, MaxRetryAfter]; it counts only where
	// HasRetryAfter is set: 0 and absent differ.
	RetryAfter    time.Duration
	HasRetryAfter bool
	// Quota says that an account is empty (insufficient_quota), which waiting seconds will not cure.
	Quota bool
	// Reason says in our own words what was seen, such as "HTML with status 200"; for logs and spans.
	Reason string
}

// Response is a backend's answer with its body, or as much of it as was read. Now is when its header arrived.
type Response struct {
	Endpoint Endpoint
	Status   int
	Header   http.Header
	Body     []byte
	Now      time.Time
	// PreviousResponse is the request's: a 404 to it is about the stored response, not about the endpoint.
	PreviousResponse bool
}

// JudgeStatus judges an answer whose status is not 2xx, with the error in its body. For a 2xx it returns Success and
// has not looked at the body: that is JudgeBody's, or JudgeEvent's.
func JudgeStatus(r *Response) Answer { panic("todo") }

// BodyFacts is what one whole JSON body says.
type BodyFacts struct {
	Answer Answer
	Usage  Usage
	// Model is the value of the answer's model, quotes included.
	Model Span
}

// Usage counts tokens; Known is false where the backend told nothing.
type Usage struct {
	Prompt, Completion int64
	Known              bool
}

// JudgeBody judges the whole body of a 2xx to a request that did not stream, by its content, whatever its type says.
func JudgeBody(ep Endpoint, body []byte) BodyFacts { panic("todo") }

// Shape is what a body is, judged by its content.
type Shape uint8

// Shapes.
const (
	ShapeUnknown Shape = iota // more bytes are needed
	ShapeJSON                 // begins like a JSON value
	ShapeSSE                  // begins like a field or a comment of an event stream
	ShapeOther                // HTML, text, anything else
)

// Sniff judges a 2xx body by its first bytes; final says that there are no more.
func Sniff(prefix []byte, final bool) Shape { panic("todo") }
