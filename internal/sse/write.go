package sse

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
func AppendComment(dst []byte, text []byte, form Form) []byte { panic("todo") }

// AppendData appends an event that carries data, one data line for each line of it.
func AppendData(dst []byte, data []byte) []byte { panic("todo") }

// AppendEvent is AppendData with an event name; an empty name is left out.
func AppendEvent(dst []byte, name string, data []byte) []byte { panic("todo") }

// AppendSpliced appends the event's Raw with data[start:end] (offsets in Data) replaced by with.
func (e Event) AppendSpliced(dst []byte, start, end int, with []byte) []byte { panic("todo") }
