package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Errors of a Reader.
var (
	// ErrSilent says that not one line came for the idle time. The request may succeed when it is made again.
	ErrSilent = errors.New("stream: silent for longer than the idle time")
	// ErrIncomplete says that the stream ended with neither [DONE] nor a finish reason: the answer is cut.
	ErrIncomplete = errors.New("stream: ended before the answer was complete")
	// ErrTooLarge says that one line or event is larger than Options.MaxEvent.
	ErrTooLarge = errors.New("stream: event larger than the cap")
)

// Error is an error that the server told: as an event within the stream, or instead of one.
type Error struct {
	// Status of the response that carried the error; 200 where it came within a stream.
	Status int
	// Message, Type, Code and Param are OpenAI's. Code is a word, also where the server sent a number.
	Message, Type, Code, Param string
	// UpstreamStatus is what the backend answered, where the proxy passes its error on; 0: unknown.
	UpstreamStatus int
	// RetryAfter is how long the server asks to wait; 0: it did not say.
	RetryAfter time.Duration
	// Attempts lists what the proxy tried.
	Attempts []Attempt
}

// Attempt is one entry of an error's list of attempts.
type Attempt struct {
	Backend string `json:"backend"`
	Class   string `json:"class"`
}

// Error gives the message, with the code before it where there is one.
func (e *Error) Error() string {
	switch {
	case e.Code != "" && e.Message != "":
		return e.Code + ": " + e.Message
	case e.Message != "":
		return e.Message
	case e.Code != "":
		return e.Code
	default:
		return "the server answered with status " + strconv.Itoa(e.Status)
	}
}

// word is a string that some servers send as a number.
type word string

// UnmarshalJSON takes strings and numbers; anything else is the empty word.
func (w *word) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*w = word(s)
		return nil
	}
	var n json.Number
	if json.Unmarshal(b, &n) == nil {
		*w = word(n)
	}
	return nil
}

// errorObject is the value of "error".
type errorObject struct {
	Message        word      `json:"message"`
	Type           word      `json:"type"`
	Code           word      `json:"code"`
	Param          word      `json:"param"`
	UpstreamStatus int       `json:"upstream_status"`
	RetryAfterMS   int64     `json:"retry_after_ms"`
	Attempts       []Attempt `json:"attempts"`
}

// wait is how long a server asks to wait; 0 where it asks for what nobody may reasonably ask for.
func wait(n int64, unit time.Duration) time.Duration {
	if n < 0 || n > int64(maxRetryAfter/unit) {
		return 0
	}
	return time.Duration(n) * unit
}

// isFault says whether the value of a member "error" tells of one: some servers always write the member, and leave it empty.
func isFault(raw json.RawMessage) bool {
	var v any
	_ = json.Unmarshal(raw, &v) // nothing is no fault
	switch v := v.(type) {
	case string:
		return v != ""
	case float64:
		return v != 0
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return v == true
}

// parseError reads the value of a member "error": an object, or only a message. It is nil for what is none.
func parseError(raw json.RawMessage, status int) *Error {
	if !isFault(raw) {
		return nil
	}
	var message string
	if json.Unmarshal(raw, &message) == nil {
		return &Error{Status: status, Message: message}
	}
	var o errorObject
	if err := json.Unmarshal(raw, &o); err != nil && o.Message == "" {
		o.Message = word(fmt.Sprintf("an error that cannot be read (%d bytes)", len(raw)))
	}
	return &Error{
		Status:  status,
		Message: string(o.Message), Type: string(o.Type), Code: string(o.Code), Param: string(o.Param),
		UpstreamStatus: o.UpstreamStatus,
		RetryAfter:     wait(o.RetryAfterMS, time.Millisecond),
		Attempts:       o.Attempts,
	}
}
