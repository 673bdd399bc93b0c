package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-dev/spillway/internal/sse"
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
	Backend string
	Class   string
}

// Error makes *Error an error: code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// HTTPStatus is the status that the error is answered with.
func (e *Error) HTTPStatus() int {
	switch {
	case !e.Code.Known():
		return CodeInternalError.Status()
	case e.Status != 0:
		return e.Status
	case e.Code.Status() != 0:
		return e.Code.Status()
	default:
		return http.StatusBadGateway
	}
}

// AppendJSON appends the envelope {"error":{...}}.
func (e *Error) AppendJSON(dst []byte) []byte {
	code, message := e.Code, e.Message
	if !code.Known() {
		code, message = CodeInternalError, "Something went wrong inside the proxy."
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = appendQuoted(dst, message)
	dst = append(dst, `,"type":`...)
	dst = appendQuoted(dst, code.Type())
	dst = append(dst, `,"code":`...)
	dst = appendQuoted(dst, string(code))
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendQuoted(dst, e.Param)
	}
	return append(e.appendExtras(dst), "}}"...)
}

func (e *Error) appendExtras(dst []byte) []byte {
	if e.UpstreamStatus != 0 {
		dst = appendUpstreamStatus(append(dst, ','), e.UpstreamStatus)
	}
	if e.RetryAfter > 0 {
		dst = append(dst, `,"retry_after_ms":`...)
		dst = strconv.AppendInt(dst, int64((e.RetryAfter+time.Millisecond-1)/time.Millisecond), 10)
	}
	if e.Attempts == nil {
		return dst
	}
	dst = append(dst, `,"attempts":[`...)
	for i, a := range e.Attempts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"backend":`...)
		dst = appendQuoted(dst, a.Backend)
		dst = append(dst, `,"class":`...)
		dst = appendQuoted(dst, a.Class)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// AppendErrorEvent appends an error body as the last event of a stream whose status line has gone. No [DONE] follows it.
// It is a data event without a name, apart from the messages dialect: its clients skip what has no name, and a cut answer
// would look whole to them. It is of one line: a backend's own body may be pretty-printed, and not every client joins lines.
func AppendErrorEvent(dst []byte, ep Endpoint, body []byte) []byte {
	var line bytes.Buffer
	if json.Compact(&line, body) == nil {
		body = line.Bytes()
	}
	if ep != Messages {
		return sse.AppendData(dst, body)
	}
	var typed struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body, &typed) == nil && typed.Type == "" {
		body = append([]byte(`{"type":"error",`), body[1:]...)
	}
	return sse.AppendEvent(dst, "error", body)
}

// WriteError answers with the error: Content-Type, Content-Length, Retry-After where it is set, status and envelope; a 401
// names the scheme that it asks for, as HTTP wants it.
// It returns the status. Other headers are the caller's.
func WriteError(w http.ResponseWriter, e *Error) int {
	body := e.AppendJSON(nil)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if e.RetryAfter > 0 {
		h.Set("Retry-After", RetryAfterSeconds(e.RetryAfter))
	}
	status := e.HTTPStatus()
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that has left needs no answer
	return status
}

// RetryAfterSeconds is d as the value of a Retry-After header: whole seconds, rounded up, at least 1.
func RetryAfterSeconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

// maxForeignMessage bounds how much of a backend's own words is kept, in bytes.
const maxForeignMessage = 2048

// AppendRejection appends a backend's own error body with upstream_status put inside its error object, every other
// byte unchanged. A body of another shape is wrapped into an envelope with the code upstream_request_rejected; of it
// only a JSON message survives ("message", "detail", "errors", or an "error" that is no object), since that was written for the caller.
func AppendRejection(dst, body []byte, status int) []byte {
	body = legible(body)
	f, ok := findError(body)
	if !ok || f.object.Start == f.object.End {
		e := Error{Code: CodeUpstreamRejected, UpstreamStatus: status}
		if e.Message = cutMessage(f.message); !ok || e.Message == "" {
			e.Message = "The backend rejected the request with status " + strconv.Itoa(status) + "."
		}
		return e.AppendJSON(dst)
	}
	if f.upstreamStatus.Found() { // another proxy of this kind stands between: the nearest answer counts
		return AppendReplaced(dst, body, f.upstreamStatus, strconv.AppendInt(nil, int64(status), 10))
	}
	inside := f.object.End - 1
	dst = append(dst, body[:inside]...)
	if filled(f.object.in(body)) {
		dst = append(dst, ',')
	}
	dst = appendUpstreamStatus(dst, status)
	return append(dst, body[inside:]...)
}

func appendUpstreamStatus(dst []byte, status int) []byte {
	dst = append(dst, `"upstream_status":`...)
	return strconv.AppendInt(dst, int64(status), 10)
}

// cutMessage shortens a message at a character's boundary.
func cutMessage(s string) string {
	if len(s) <= maxForeignMessage {
		return s
	}
	cut := maxForeignMessage
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut] + "..."
}
