package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// foreignError is what a backend's error body says, in whichever of the shapes that are about.
type foreignError struct {
	object         Span // the error object; none where the error is a string or the body itself
	upstreamStatus Span // the value within the object, written by another proxy of this kind
	message        string
	code, kind     string // error.code and error.type, lower case
	status         int    // a number within [400, 599] in code or status; 0: none
	retryAfter     time.Duration
	hasRetryAfter  bool
}

// findError reads an error body: {"error":{...}}, {"error":"..."}, {"message":...,"code":...} or {"detail":...}. It is
// false for what is not one whole JSON object. All fields are empty where the object holds no error.
func findError(body []byte) (foreignError, bool) {
	var f, top foreignError
	found := false
	c := cursor{b: body}
	for c.enter('{'); c.more('}'); {
		name := string(c.name())
		at := c.value()
		v := at.in(body)
		switch {
		case name != "error":
			top.member(name, v)
		case isString(v):
			f, found = foreignError{message: unquote(v)}, true
		case len(v) > 0 && v[0] == '{':
			f, found = readErrorObject(body, at), true
		}
	}
	if !c.end() {
		return foreignError{}, false
	}
	if !found {
		return top, true
	}
	if f.kind == "" && f.code == "" && f.status == 0 {
		f.kind, f.code, f.status = top.kind, top.code, top.status
	}
	return f, true
}

func readErrorObject(body []byte, at Span) foreignError {
	f := foreignError{object: at}
	c := cursor{b: body[:at.End], i: at.Start}
	for c.enter('{'); c.more('}'); {
		name := string(c.name())
		value := c.value()
		if name == "upstream_status" {
			f.upstreamStatus = value
		}
		f.member(name, value.in(body))
	}
	return f
}

// member takes one member of an error object. Backends put words and numbers into either of code, type and status.
func (f *foreignError) member(name string, v []byte) {
	switch name {
	case "message", "detail":
		if isString(v) {
			f.message = unquote(v)
		} else if name == "detail" {
			f.message = detailsOf(v)
		}
	case "code", "type", "status", "status_code":
		f.classifier(name, v)
	case "retry_after_ms": // how a proxy of this kind says it where the header has gone
		if ms, err := strconv.ParseFloat(string(v), 64); err == nil {
			f.retryAfter, f.hasRetryAfter = clampSeconds(ms/1000), true
		}
	}
}

// detailsOf returns what a list of details says, as FastAPI writes one about a body that does not suit it: where and what.
func detailsOf(v []byte) string {
	var list []json.RawMessage
	_ = json.Unmarshal(v, &list) // what is no list says nothing
	var said []string
	for _, one := range list {
		var detail struct {
			Loc []any  `json:"loc"`
			Msg string `json:"msg"`
		}
		if json.Unmarshal(one, &detail) != nil || detail.Msg == "" {
			continue
		}
		var where []string
		for _, step := range detail.Loc {
			where = append(where, fmt.Sprint(step))
		}
		if len(where) > 0 {
			detail.Msg = strings.Join(where, ".") + ": " + detail.Msg
		}
		said = append(said, detail.Msg)
	}
	return strings.Join(said, "; ")
}

// legible returns an error body in valid UTF-8: what was cut within a character is an error all the same. Of a body that is a list it
// returns the first object: so Google's servers wrap their errors.
func legible(body []byte) []byte {
	body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	c := cursor{b: body}
	if c.peek() != '[' {
		return body
	}
	var first Span
	for c.enter('['); c.more(']'); {
		if at := c.value(); !first.Found() {
			first = at
		}
	}
	if !c.end() || !first.Found() {
		return body
	}
	return first.in(body)
}

func (f *foreignError) classifier(name string, v []byte) {
	word := string(v)
	if isString(v) {
		word = strings.ToLower(unquote(v))
	}
	if n, err := strconv.Atoi(word); err == nil {
		if n >= http.StatusBadRequest && n < 600 {
			f.status = n
		}
	} else if name == "type" {
		f.kind = word
	} else if isString(v) {
		f.code = word
	}
}

// says reports whether the error's code or type is one of the words.
func (f *foreignError) says(words ...string) bool {
	for _, w := range words {
		if f.code == w || f.kind == w {
			return true
		}
	}
	return false
}

// tooLong, by code only: messages are prose. The second word is llama.cpp's.
func (f *foreignError) tooLong() bool {
	return f.says("context_length_exceeded", "exceed_context_size_error")
}

// busy says that a 503 is about load, and not about a fault.
func (f *foreignError) busy() bool {
	return f.says("backend_saturated", "overloaded", "overloaded_error") || saysBusy([]byte(f.message))
}

// quota says that the account is empty.
func (f *foreignError) quota() bool { return f.says("insufficient_quota") }

// errorWords maps the words that error objects carry to the status that they stand for.
var errorWords = map[string]int{
	"insufficient_quota":        http.StatusTooManyRequests,
	"rate_limit_exceeded":       http.StatusTooManyRequests,
	"rate_limit_error":          http.StatusTooManyRequests,
	"rate_limited":              http.StatusTooManyRequests,
	"too_many_requests":         http.StatusTooManyRequests,
	"resource_exhausted":        http.StatusTooManyRequests,
	"overloaded_error":          statusOverloaded,
	"overloaded":                statusOverloaded,
	"engine_overloaded":         statusOverloaded,
	"slow_down":                 statusOverloaded,
	"context_length_exceeded":   http.StatusBadRequest,
	"exceed_context_size_error": http.StatusBadRequest,
	"invalid_request_error":     http.StatusBadRequest,
	"invalid_request":           http.StatusBadRequest,
	"invalid_prompt":            http.StatusBadRequest,
	"request_too_large":         http.StatusRequestEntityTooLarge,
	"invalid_api_key":           http.StatusUnauthorized,
	"authentication_error":      http.StatusUnauthorized,
	"billing_error":             http.StatusPaymentRequired,
	"permission_error":          http.StatusForbidden,
	"model_not_found":           http.StatusNotFound,
	"not_found_error":           http.StatusNotFound,
	"backend_saturated":         http.StatusServiceUnavailable,
	"server_error":              http.StatusInternalServerError,
	"internal_error":            http.StatusInternalServerError,
	"internal_server_error":     http.StatusInternalServerError,
	"api_error":                 http.StatusInternalServerError,
	"timeout_error":             http.StatusGatewayTimeout,
}

// statusOverloaded is what some providers answer when they are full.
const statusOverloaded = 529

// impliedStatus is the status that an error inside a 200 carries or stands for; 0 where it tells nothing.
func (f *foreignError) impliedStatus() int {
	if f.status != 0 {
		return f.status
	}
	if s := errorWords[f.code]; s != 0 {
		return s
	}
	if s := errorWords[f.kind]; s != 0 {
		return s
	}
	if saysBusy([]byte(f.message)) {
		return http.StatusServiceUnavailable
	}
	return 0
}

// busyPhrases are how servers say, in the text of a 503, that they are full or still loading: llama.cpp, Ollama, TGI,
// vLLM ("The engine is currently busy ...", "... reached its prefill token backlog limit"), and others.
var busyPhrases = [][]byte{
	[]byte("loading model"),
	[]byte("model is loading"),
	[]byte("is currently loading"),
	[]byte("server busy"),
	[]byte("server is busy"),
	[]byte("is currently busy"),
	[]byte("backlog limit"),
	[]byte("maximum pending requests"),
	[]byte("overloaded"),
	[]byte("at capacity"),
	[]byte("no slot available"),
	[]byte("queue is full"),
	[]byte("queue full"),
}

// saysBusy looks for the phrases in the first part of a text.
func saysBusy(text []byte) bool {
	text = bytes.ToLower(text[:min(len(text), maxForeignMessage)])
	for _, phrase := range busyPhrases {
		if bytes.Contains(text, phrase) {
			return true
		}
	}
	return false
}
