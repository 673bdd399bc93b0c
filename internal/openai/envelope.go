package openai

import "io"

// Envelope is what decides about a request. The rest of the body is checked to be JSON and left alone.
type Envelope struct {
	// Model is the decoded value of the top-level "model"; never empty.
	Model string
	// Stream is the top-level "stream"; absent and null are false.
	Stream bool
	// IncludeUsage is "stream_options.include_usage": the caller wants usage as the last chunk of a stream.
	IncludeUsage bool
	// Stored says that the request names something that is stored at one backend: by "previous_response_id", "conversation", or an
	// object in "prompt".
	Stored bool
	// List says that "prompt" or "input" is a list. To text completions and embeddings that is many prompts, or the numbers of tokens.
	List bool

	model Span
}

// Span is a range of bytes; the zero value is none.
type Span struct{ Start, End int }

// Found says whether the span is there.
func (s Span) Found() bool { return s.End > 0 }

// ParseEnvelope finds the exact top-level fields. Names in nested values or in another case do not count. Every error
// is an *Error with status 400, code invalid_request and the parameter's name.
func ParseEnvelope(body []byte) (Envelope, error) {
	c := cursor{b: body}
	if c.peek() != '{' {
		return Envelope{}, badParam("model", "The request body must be one JSON object.")
	}
	var w envelopeWalk
	for c.enter('{'); c.more('}'); {
		w.member(&c)
	}
	if !c.end() {
		return Envelope{}, badParam("model", "The request body is not one valid JSON object in UTF-8.")
	}
	if w.duplicate != "" {
		return Envelope{}, badParam(w.duplicate, "The parameter is given more than once.")
	}
	return w.settle(body)
}

// envelopeWalk gathers what was found while the cursor passes over the body.
type envelopeWalk struct {
	Envelope
	stream    Span
	duplicate string // a parameter that came twice: which one counts would be anybody's guess
}

func (w *envelopeWalk) member(c *cursor) {
	switch string(c.name()) {
	case "model":
		w.once(&w.model, "model", c.value())
	case "stream":
		w.once(&w.stream, "stream", c.value())
	case "stream_options":
		w.IncludeUsage = includesUsage(c.value().in(c.b))
	case "previous_response_id", "conversation":
		w.Stored = !isNull(c.value().in(c.b)) || w.Stored
	case "prompt":
		prompt := c.value().in(c.b)
		w.Stored = startsWith(prompt, '{', 0) || w.Stored
		w.asked(prompt)
	case "input":
		w.asked(c.value().in(c.b))
	default:
		c.value()
	}
}

func (w *envelopeWalk) asked(prompt []byte) { w.List = startsWith(prompt, '[', 0) || w.List }

func (w *envelopeWalk) once(into *Span, name string, at Span) {
	if into.Found() {
		w.duplicate = name
	}
	*into = at
}

// settle checks the values that were found.
func (w *envelopeWalk) settle(body []byte) (Envelope, error) {
	model := w.model.in(body)
	switch {
	case !w.model.Found():
		return Envelope{}, badParam("model", "The parameter is missing.")
	case !isString(model):
		return Envelope{}, badParam("model", "The parameter must be a string.")
	case len(model) == len(`""`):
		return Envelope{}, badParam("model", "The parameter must not be empty.")
	}
	w.Model = unquote(model)
	switch string(w.stream.in(body)) {
	case "true":
		w.Stream = true
	case "", "null", "false":
	default:
		return Envelope{}, badParam("stream", "The parameter must be true or false.")
	}
	return w.Envelope, nil
}

func includesUsage(options []byte) bool {
	include := false
	c := cursor{b: options}
	for c.enter('{'); c.more('}'); {
		if string(c.name()) == "include_usage" {
			include = string(c.value().in(options)) == "true"
		} else {
			c.value()
		}
	}
	return include
}

func badParam(param, message string) *Error {
	return &Error{Code: CodeInvalidRequest, Param: param, Message: message}
}

// Splice returns body, from which e was parsed, with only the value of "model" replaced. Nothing is copied: body must
// not change while the result is in use.
func (e *Envelope) Splice(body []byte, model string) Body {
	return Body{prefix: body[:e.model.Start], model: Quote(model), suffix: body[e.model.End:]}
}

// Body is a request body in segments. It is a value: each attempt takes its own reader.
type Body struct{ prefix, model, suffix []byte }

// Len is the one right Content-Length, in bytes.
func (b Body) Len() int64 { return int64(len(b.prefix) + len(b.model) + len(b.suffix)) }

// Reader returns a fresh reader over the whole body; it serves http.Request.Body and GetBody, and is an io.WriterTo.
func (b Body) Reader() io.ReadCloser {
	return &bodyReader{rest: [3][]byte{b.prefix, b.model, b.suffix}}
}

// bodyReader reads one segment after the other.
type bodyReader struct{ rest [3][]byte }

// Read fills p from the segments.
func (r *bodyReader) Read(p []byte) (int, error) {
	n := 0
	for i := range r.rest {
		m := copy(p[n:], r.rest[i])
		r.rest[i] = r.rest[i][m:]
		n += m
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo writes the segments as they are, without a buffer between.
func (r *bodyReader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for i, segment := range r.rest {
		if len(segment) == 0 {
			continue
		}
		n, err := w.Write(segment)
		r.rest[i] = segment[n:]
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Close has nothing to close: the bytes belong to the request.
func (r *bodyReader) Close() error { return nil }
