package openai

import (
	"bytes"
	"strconv"
)

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

var kindNames = [...]string{Prelude: "prelude", Token: "token", ErrorEvent: "error", DoneEvent: "done"}

// String is the kind's word.
func (k EventKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// EventFacts is what one event says.
type EventFacts struct {
	Kind EventKind
	// Begun are the choices that the event speaks of, Finished those that are whole with it: by a finish reason, or by the
	// dialect's own closing event. A Progress adds them up.
	Begun, Finished Choices
	Usage           Usage
	// Model is the value of the model within the event's data, quotes included.
	Model Span
	// Answer is set where Kind is ErrorEvent.
	Answer Answer
}

var doneWord = []byte("[DONE]")

// JudgeEvent judges the data of one event; name is its event field. It does not allocate, apart from errors. Data that
// is no JSON object is a Prelude, unless the event is named error.
func JudgeEvent(ep Endpoint, name, data []byte) EventFacts {
	if bytes.Equal(bytes.TrimSpace(data), doneWord) {
		return EventFacts{Kind: DoneEvent}
	}
	c := cursor{b: data, loose: true}
	var w eventWalk
	w.failed = string(name) == "error"
	w.walk(&c, ep)
	if whole := c.end(); w.failed || !whole {
		return w.faulty(data)
	}
	f := EventFacts{Begun: w.begun, Finished: w.finished, Usage: w.usage, Model: w.model}
	if w.token || w.finished != 0 {
		f.Kind = Token
	}
	return f
}

// answerWalk gathers what bodies and events of all dialects have in common.
type answerWalk struct {
	failed bool // an error is in it
	usage  Usage
	model  Span
}

// member takes a member's value, whatever it is.
func (w *answerWalk) member(c *cursor, name []byte) {
	switch string(name) {
	case "error":
		w.failed = isFault(c.value().in(c.b)) || w.failed
	case "object":
		w.failed = string(c.value().in(c.b)) == `"error"` || w.failed
	case "usage":
		w.usage.Merge(c.usage())
	case "model":
		if at := c.value(); isString(at.in(c.b)) {
			w.model = at
		}
	default:
		c.value()
	}
}

// eventWalk gathers what one event says while the cursor passes over it.
type eventWalk struct {
	answerWalk
	token           bool
	begun, finished Choices
}

func (w *eventWalk) walk(c *cursor, ep Endpoint) {
	if c.peek() != '{' {
		c.bad = true
		return
	}
	if ep == Responses || ep == Messages {
		w.typed(c, ep)
		return
	}
	for c.enter('{'); c.more('}'); {
		if name := c.name(); string(name) == "choices" {
			w.choices(c)
		} else {
			w.member(c, name)
		}
	}
}

// typed walks over an event of the dialects whose events have a type.
func (w *eventWalk) typed(c *cursor, ep Endpoint) {
	var kind, delta, text []byte
	for c.enter('{'); c.more('}'); {
		switch name := c.name(); string(name) {
		case "message", "response": // where model and usage stand
			w.container(c)
		case "type":
			kind = c.value().in(c.b)
		case "delta":
			delta = c.value().in(c.b)
		case "text", "arguments", "refusal", "partial_image_b64":
			text = c.value().in(c.b)
		default:
			w.member(c, name)
		}
	}
	if ep == Responses {
		w.responsesEvent(kind, filled(delta) || filled(text))
	} else {
		w.messagesEvent(kind, delta)
	}
}

// container looks into "response" of the responses dialect and "message" of the messages dialect.
func (w *eventWalk) container(c *cursor) {
	if c.peek() != '{' {
		c.value()
		return
	}
	for c.enter('{'); c.more('}'); {
		w.member(c, c.name())
	}
}

// choices walks over the choices of a chunk.
func (w *eventWalk) choices(c *cursor) {
	if c.peek() != '[' {
		c.value()
		return
	}
	for c.enter('['); c.more(']'); {
		if c.peek() != '{' {
			c.value()
			continue
		}
		w.choice(c)
	}
}

// choice walks over one choice of a chunk. Without an index it is the first.
func (w *eventWalk) choice(c *cursor) {
	var index int64
	finished := false
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "index":
			index, _ = strconv.ParseInt(string(c.value().in(c.b)), 10, 64) // what is no number is 0
		case "delta", "message":
			w.delta(c)
		case "text":
			w.token = filled(c.value().in(c.b)) || w.token
		case "finish_reason":
			finished = filled(c.value().in(c.b))
		default:
			c.value()
		}
	}
	w.begun |= choiceAt(index)
	if finished {
		w.finished |= choiceAt(index)
	}
}

// delta walks over the delta of a chat chunk. Every member counts that a model generates.
func (w *eventWalk) delta(c *cursor) {
	if c.peek() != '{' {
		c.value()
		return
	}
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "content", "reasoning", "reasoning_content", "reasoning_details",
			"refusal", "audio", "images", "tool_calls", "function_call":
			w.token = filled(c.value().in(c.b)) || w.token
		default:
			c.value()
		}
	}
}

// responsesEvent judges by the type of an event of /v1/responses.
func (w *eventWalk) responsesEvent(kind []byte, content bool) {
	if !isString(kind) {
		return
	}
	switch kind = kind[1 : len(kind)-1]; string(kind) {
	case "error", "response.failed":
		w.failed = true
	case "response.completed", "response.incomplete":
		w.finished = choiceAt(0)
	case "response.output_item.done", "response.content_part.done":
		w.token = true // a server may send an item whole, without deltas
	default:
		w.token = content && (bytes.HasSuffix(kind, []byte(".delta")) || bytes.HasSuffix(kind, []byte(".done")) ||
			bytes.HasSuffix(kind, []byte(".partial_image")))
	}
}

// messagesEvent judges by the type of an event of /v1/messages.
func (w *eventWalk) messagesEvent(kind, delta []byte) {
	switch string(kind) {
	case `"error"`:
		w.failed = true
	case `"message_stop"`:
		w.finished = choiceAt(0)
	case `"content_block_delta"`, `"message_delta"`:
		w.messagesDelta(delta)
	}
}

func (w *eventWalk) messagesDelta(delta []byte) {
	if len(delta) == 0 || delta[0] != '{' {
		return
	}
	c := cursor{b: delta, loose: true}
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "text", "thinking", "partial_json", "signature", "citation", "citations":
			w.token = filled(c.value().in(delta)) || w.token
		case "stop_reason":
			if filled(c.value().in(delta)) {
				w.finished = choiceAt(0)
			}
		default:
			c.value()
		}
	}
}

// faulty judges an event that carries an error, or whose data is no JSON object.
func (w *eventWalk) faulty(data []byte) EventFacts {
	if !w.failed {
		return EventFacts{}
	}
	f, ok := findError(unwrapResponse(legible(data)))
	if !ok {
		f = foreignError{message: string(data)}
	}
	return EventFacts{Kind: ErrorEvent, Answer: judgeError(&f, Failed)}
}

// unwrapResponse returns the response object within an event of /v1/responses whose error stands in there.
func unwrapResponse(data []byte) []byte {
	inner := data
	c := cursor{b: data}
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "error":
			if isFault(c.value().in(data)) {
				return data
			}
		case "response":
			if at := c.value(); len(at.in(data)) > 0 && data[at.Start] == '{' {
				inner = at.in(data)
			}
		default:
			c.value()
		}
	}
	return inner
}
