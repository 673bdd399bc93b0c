package sse

import "bytes"

// Form is how a comment is closed.
type Form uint8

// Forms of a comment.
const (
	// Line is the comment line alone.
	Line Form = iota
	// Block is the comment line and an empty line.
	Block
)

// Done is the event that ends a stream of the OpenAI dialects.
const Done = "data: [DONE]\n\n"

// AppendComment appends text as one comment line in the given form. Line ends within text become spaces, so that text
// can never become a field. It belongs at an event boundary.
func AppendComment(dst []byte, text []byte, form Form) []byte {
	dst = append(dst, ": "...)
	from := len(dst)
	dst = append(dst, text...)
	for i, c := range dst[from:] {
		if c == '\n' || c == '\r' {
			dst[from+i] = ' '
		}
	}
	dst = append(dst, '\n')
	if form == Block {
		dst = append(dst, '\n')
	}
	return dst
}

// AppendData appends an event that carries data, one data line for each line of it.
func AppendData(dst []byte, data []byte) []byte {
	for {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			break
		}
		dst = appendField(dst, data[:end])
		if bytes.HasPrefix(data[end:], []byte("\r\n")) {
			end++
		}
		data = data[end+1:]
	}
	dst = appendField(dst, data)
	return append(dst, '\n')
}

func appendField(dst, value []byte) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, value...)
	return append(dst, '\n')
}

// AppendEvent is AppendData with an event name; an empty name is left out. The name must be free of line ends.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	return AppendData(dst, data)
}

// AppendSpliced appends the event with Data[start:end] replaced by with, which must be free of line ends. Everything
// else stays as it is in Raw; only an event of several data lines is written anew from its name and data.
func (e Event) AppendSpliced(dst []byte, start, end int, with []byte) []byte {
	if e.dataAt >= 0 {
		dst = append(dst, e.Raw[:e.dataAt+start]...)
		dst = append(dst, with...)
		return append(dst, e.Raw[e.dataAt+end:]...)
	}
	data := make([]byte, 0, len(e.Data)-(end-start)+len(with))
	data = append(append(append(data, e.Data[:start]...), with...), e.Data[end:]...)
	return AppendEvent(dst, string(e.Name), data)
}
