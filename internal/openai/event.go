package openai

// EventKind says what a stream event means for the attempt that carries it.
type EventKind uint8

// Kinds of events.
const (
	// Prelude is anything that carries no token: role-only and empty deltas, pings, filter results, usage alone.
	Prelude EventKind = iota
	// Token carries content, reasoning, a refusal, audio, a tool call or a finish reason.
	Token
	// ErrorEvent carries an error: Answer says which.
	ErrorEvent
	// DoneEvent is [DONE].
	DoneEvent
)

// String is the kind's word.
func (k EventKind) String() string { panic("todo") }

// EventFacts is what one event says.
type EventFacts struct {
	Kind EventKind
	// Finish says that the answer is whole with this event: a finish reason, or the dialect's own closing event.
	Finish bool
	Usage  Usage
	// Model is the value of the model within the event's data, quotes included.
	Model Span
	// Answer is set where Kind is ErrorEvent.
	Answer Answer
}

// JudgeEvent judges the data of one event; name is its event field. It does not allocate, apart from errors.
func JudgeEvent(ep Endpoint, name, data []byte) EventFacts { panic("todo") }
