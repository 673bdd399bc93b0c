package openai

// Quote returns s as a JSON string, quotes included.
func Quote(s string) []byte { panic("todo") }

// AppendReplaced appends body with the span replaced by with; a span that is not found changes nothing.
func AppendReplaced(dst, body []byte, at Span, with []byte) []byte { panic("todo") }
