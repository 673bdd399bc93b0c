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

// findError reads an error body: {"error":{...}}, {"error":"..."}, {"message":...,"code":...}, {"detail":...} or {"errors":[...]}. It
// is false for what is not one whole JSON object. All fields are empty where the object holds no error.
func findError(body []byte) (foreignError, bool) {
	var f, top foreignError
	found := false
	c := cursor{b: body}
	for c.enter('{'); c.more('}'); {
		name := string(c.name())
		at := c.value()
		if v := at.in(body); name == "error" && len(v) > 0 && v[0] == '{' {
			f, found = readErrorObject(body, at), true
		} else {
			top.member(name, v)
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
	case "message", "detail", "error", "errors":
		f.message = joinWords(": ", f.message, wordsOf(v, wordsDepth))
	case "code", "type", "status", "status_code":
		f.classifier(name, v)
	case "retry_after_ms": // how a proxy of this kind says it where the header has gone
		if ms, err := strconv.ParseFloat(string(v), 64); err == nil {
			f.retryAfter, f.hasRetryAfter = clampSeconds(ms/1000), true
		}
	}
}

// wordsDepth bounds how deep in an error's members words are looked for.
const wordsDepth = 4

// wordsOf returns what a member of an error says: a text, what each entry of a list says, or what an object says under one of the usual
// names, behind the place that it is about (as FastAPI tells what does not suit it).
func wordsOf(v []byte, depth int) string {
	switch {
	case isString(v):
		return unquote(v)
	case len(v) == 0 || depth == 0:
		return ""
	case v[0] == '[':
		var list []json.RawMessage
		_ = json.Unmarshal(v, &list) // it has been checked, as all here
		said := ""
		for i := 0; i < len(list) && len(said) <= maxForeignMessage; i++ {
			said = joinWords("; ", said, wordsOf(list[i], depth-1))
		}
		return said
	}
	var o struct {
		Loc                         []any
		Message, Msg, Detail, Error json.RawMessage
	}
	_ = json.Unmarshal(v, &o) // what is of another type says nothing
	said := ""
	for _, inner := range [...]json.RawMessage{o.Error, o.Message, o.Msg, o.Detail} {
		said = joinWords(": ", said, wordsOf(inner, depth-1))
	}
	var where []string
	for _, step := range o.Loc {
		where = append(where, fmt.Sprint(step))
	}
	if said == "" {
		return ""
	}
	return joinWords(": ", strings.Join(where, "."), said)
}

// joinWords puts a separator between what is not empty.
func joinWords(between, a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + between + b
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
	"server_is_overloaded":      statusOverloaded,
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

	// Of responses that failed: an image that cannot be read is the request's fault.
	"vector_store_timeout":           http.StatusGatewayTimeout,
	"invalid_image":                  http.StatusBadRequest,
	"invalid_image_format":           http.StatusBadRequest,
	"invalid_base64_image":           http.StatusBadRequest,
	"invalid_image_url":              http.StatusBadRequest,
	"image_too_large":                http.StatusBadRequest,
	"image_too_small":                http.StatusBadRequest,
	"image_parse_error":              http.StatusBadRequest,
	"image_content_policy_violation": http.StatusBadRequest,
	"invalid_image_mode":             http.StatusBadRequest,
	"image_file_too_large":           http.StatusBadRequest,
	"unsupported_image_media_type":   http.StatusBadRequest,
	"empty_image_file":               http.StatusBadRequest,
	"failed_to_download_image":       http.StatusBadRequest,
	"image_file_not_found":           http.StatusBadRequest,
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
