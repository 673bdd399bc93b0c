package openai

import "github.com/go-json-experiment/json/jsontext"

// Quote returns s as a JSON string, quotes included. Invalid UTF-8 in s becomes U+FFFD.
func Quote(s string) []byte { return appendQuoted(make([]byte, 0, len(s)+2), s) }

func appendQuoted(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s) // the only error is invalid UTF-8, and then it has been replaced
	return out
}

// AppendReplaced appends body with the span replaced by with; a span that is not found changes nothing.
func AppendReplaced(dst, body []byte, at Span, with []byte) []byte {
	if !at.Found() {
		return append(dst, body...)
	}
	dst = append(dst, body[:at.Start]...)
	dst = append(dst, with...)
	return append(dst, body[at.End:]...)
}
