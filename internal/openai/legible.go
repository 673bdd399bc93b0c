package openai

import (
	"bytes"

	"github.com/spillway-dev/spillway/internal/sse"
)

// legible returns an error body as the one JSON object that tells of the error, in valid UTF-8: what was cut within a character is an error all
// the same. Some servers put it into an event of a stream, whatever the status; some, as Google's, into a list; some, deeper into an
// answer. What cannot be found stays as it is.
func legible(body []byte) []byte {
	body = bytes.ToValidUTF8(body, []byte("\ufffd"))
	if Sniff(body, true) == ShapeSSE {
		body = firstData(body)
	}
	c := cursor{b: body}
	if c.peek() == '[' {
		body = firstOf(body)
	}
	return lifted(body)
}

// firstData returns the data of the first event of a stream.
func firstData(stream []byte) []byte {
	var s sse.Scanner
	s.Feed(stream)
	ev, ok := s.Next()
	if !ok {
		ev, _, _ = s.Flush()
	}
	return bytes.Clone(ev.Data)
}

// firstOf returns the first element of a list.
func firstOf(body []byte) []byte {
	var first Span
	c := cursor{b: body}
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

// lifted returns an answer whose error stands deeper as an error body: the response in an event of /v1/responses has one, and the choices
// of gateways have what their own backend ended with.
func lifted(body []byte) []byte {
	var deep []byte
	look := func(v []byte) {
		if e := memberOf(v, "error").in(v); deep == nil && isFault(e) {
			deep = e
		}
	}
	c := cursor{b: body}
	for c.enter('{'); c.more('}'); {
		name := string(c.name())
		v := c.value().in(body)
		switch name {
		case "error":
			if isFault(v) {
				return body
			}
		case "response":
			look(v)
		case "choices":
			inside := cursor{b: v}
			for inside.enter('['); inside.more(']'); {
				look(inside.value().in(v))
			}
		}
	}
	if deep == nil || !c.end() {
		return body
	}
	return append(append([]byte(`{"error":`), deep...), '}')
}
