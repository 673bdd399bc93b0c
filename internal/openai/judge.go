package openai

import (
	"bytes"
	"net/http"
	"time"
)

// Class says what kind of answer a backend gave, as far as the answer itself tells. Silence, transport errors, budgets
// and leaving callers are the proxy's to know.
type Class uint8

// Classes, in the order of the outcome table (internal/proxy/outcome.go).
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

var classNames = [...]string{
	Success: "Success", Refused: "Refused", Failed: "Failed", Invalid: "Invalid", Rejected: "Rejected",
	TooLong: "TooLong", Misconfigured: "Misconfigured", Forbidden: "Forbidden", Unsupported: "Unsupported",
}

// String is the class's word in tests and spans.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "unknown"
}

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
	// Reason says in our own words what was seen, such as "HTML instead of an answer"; for logs and spans.
	Reason string
}

// Response is a backend's answer with its body, or as much of it as was read. Now is when its header arrived.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Now    time.Time
	// Stored is the request's: a 404 to it is about what is stored, not about the endpoint.
	Stored bool
}

// JudgeStatus judges an answer whose status is not 2xx, with the error in its body. For a 2xx it returns Success and
// has not looked at the body: that is JudgeBody's, or JudgeEvent's.
func JudgeStatus(r *Response) Answer {
	if r.Status >= 200 && r.Status <= 299 {
		return Answer{Class: Success, Status: r.Status}
	}
	f, _ := findError(legible(r.Body))
	a := Answer{Class: classOf(r.Status, &f), Status: r.Status, Quota: f.quota()}
	switch {
	case a.Class == Refused:
		if a.RetryAfter, a.HasRetryAfter = ParseRetryAfter(r.Header, r.Now); !a.HasRetryAfter {
			a.RetryAfter, a.HasRetryAfter = f.retryAfter, f.hasRetryAfter
		}
	case r.Status == http.StatusServiceUnavailable:
		a.RetryAfter, a.HasRetryAfter = explicitRetryAfter(r.Header, r.Now)
		if a.HasRetryAfter || saysBusy(r.Body) {
			a.Class = Refused
		}
	case r.Status == http.StatusNotFound && r.Stored:
		a.Class = Rejected
	}
	a.Reason = reasonOf(a.Class)
	return a
}

// statusClasses is the outcome table by status, where a status means one thing whatever the body says. Others are
// Misconfigured (3xx: redirects are never followed), Rejected (4xx) or Failed.
var statusClasses = map[int]Class{
	http.StatusTooManyRequests:  Refused,
	statusOverloaded:            Refused,
	http.StatusUnauthorized:     Misconfigured,
	http.StatusPaymentRequired:  Misconfigured,
	http.StatusForbidden:        Forbidden,
	http.StatusNotFound:         Unsupported,
	http.StatusMethodNotAllowed: Unsupported,
	http.StatusNotImplemented:   Unsupported,
	http.StatusRequestTimeout:   Failed,
	http.StatusTooEarly:         Failed,
	statusClientClosed:          Failed,
}

// classOf judges by status; the error in the body decides where a status means several things.
func classOf(status int, f *foreignError) Class {
	if c, ok := statusClasses[status]; ok {
		return c
	}
	switch {
	case status == http.StatusServiceUnavailable && f.busy():
		return Refused
	case status == http.StatusBadRequest && f.tooLong():
		return TooLong
	case status/100 == 3:
		return Misconfigured
	case status/100 == 4:
		return Rejected
	default:
		return Failed
	}
}

var reasons = [...]string{
	Success: "", Refused: "full, loading or throttling", Failed: "the backend failed", Invalid: "no answer in the body",
	Rejected: "the request was rejected", TooLong: "the context window is too small",
	Misconfigured: "our credential, account or URL was refused", Forbidden: "forbidden",
	Unsupported: "the backend does not serve this endpoint",
}

func reasonOf(c Class) string { return reasons[c] }

// judgeError judges an error inside a 200, by the status that it carries or stands for. An error that tells nothing
// is of the class unknown.
func judgeError(f *foreignError, unknown Class) Answer {
	a := Answer{Class: unknown, Status: f.impliedStatus(), Quota: f.quota()}
	if f.tooLong() {
		a.Class = TooLong
	} else if a.Status != 0 {
		a.Class = classOf(a.Status, f)
	}
	if a.Class == Refused {
		a.RetryAfter, a.HasRetryAfter = f.retryAfter, f.hasRetryAfter
	}
	a.Reason = "an error inside a 200: " + reasonOf(a.Class)
	return a
}

// Shape is what a body is, judged by its content.
type Shape uint8

// Shapes.
const (
	ShapeUnknown Shape = iota // more bytes are needed
	ShapeJSON                 // begins like a JSON object or array
	ShapeSSE                  // begins like a field or a comment of an event stream
	ShapeOther                // HTML, text, anything else
)

// Sniff judges a 2xx body by its first bytes; final says that there are no more. An empty body is ShapeOther.
func Sniff(prefix []byte, final bool) Shape {
	const mark = "\ufeff"
	rest := bytes.TrimLeft(bytes.TrimPrefix(prefix, []byte(mark)), " \t\r\n")
	undecided := len(rest) == 0 || bytes.HasPrefix([]byte(mark), prefix)
	if !undecided {
		switch rest[0] {
		case '{', '[':
			return ShapeJSON
		case ':':
			return ShapeSSE
		}
		var field bool
		if field, undecided = beginsField(rest); field {
			return ShapeSSE
		}
	}
	if undecided && !final {
		return ShapeUnknown
	}
	return ShapeOther
}

// beginsField says whether text begins with a field of an event stream, or might do so with more bytes.
func beginsField(text []byte) (yes, maybe bool) {
	for _, field := range [...]string{"data", "event", "id", "retry", "error"} {
		n := min(len(text), len(field))
		if string(text[:n]) != field[:n] {
			continue
		}
		if len(text) == n {
			return false, true
		}
		return bytes.IndexByte([]byte(":\r\n"), text[n]) >= 0, false
	}
	return false, false
}
