package openai

import "io"

// Envelope is what decides about a request. The rest of the body is checked to be JSON and left alone.
type Envelope struct {
	// Model is the decoded value of the top-level "model"; never empty.
	Model string
	// Stream is the top-level "stream"; absent and null are false.
	Stream bool
	// PreviousResponse says that "previous_response_id" names a stored response: only one backend knows it.
	PreviousResponse bool

	model Span
}

// Span is a range of bytes; the zero value is none.
type Span struct{ Start, End int }

// Found says whether the span is there.
func (s Span) Found() bool { return s.End > 0 }

// ParseEnvelope finds the exact top-level fields. Names in nested values or in another case do not count. Every error
// is an *Error with status 400, code invalid_request and the parameter's name.
func ParseEnvelope(body []byte) (Envelope, error) { panic("todo") }

// Splice returns body, from which e was parsed, with only the value of "model" replaced. Nothing is copied: body must
// not change while the result is in use.
func (e *Envelope) Splice(body []byte, model string) Body { panic("todo") }

// Body is a request body in segments. It is a value: each attempt takes its own reader.
type Body struct{ prefix, model, suffix []byte }

// Len is the one right Content-Length, in bytes.
func (b Body) Len() int64 { return int64(len(b.prefix) + len(b.model) + len(b.suffix)) }

// Reader returns a fresh reader over the whole body; it serves http.Request.Body and GetBody, and is an io.WriterTo.
func (b Body) Reader() io.ReadCloser { panic("todo") }
