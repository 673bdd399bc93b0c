package openai

import "bytes"

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
	// Last says that the event is its dialect's own end of a stream, of those dialects that have one.
	Last  bool
	Usage Usage
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
	w.ep, w.failed = ep, string(name) == "error"
	w.walk(&c)
	switch whole := c.end(); {
	case w.failed || !whole:
		return w.faulty(data)
	case w.foreign:
		return EventFacts{Kind: ErrorEvent, Answer: Answer{Class: Invalid, Reason: "an answer of another dialect"}}
	}
	f := EventFacts{Begun: w.begun, Finished: w.finished, Last: w.last, Usage: w.usage, Model: w.model}
	if w.token || w.finished != 0 {
		f.Kind = Token
	}
	return f
}

// eventWalk gathers what one event says while the cursor passes over it.
type eventWalk struct {
	answerWalk
	last bool
}

func (w *eventWalk) walk(c *cursor) {
	switch {
	case c.peek() != '{':
		c.bad = true
		return
	case w.ep == Responses || w.ep == Messages:
		w.typed(c)
		return
	}
	for c.enter('{'); c.more('}'); {
		w.member(c, c.name())
	}
}

// typed walks over an event of the dialects whose events have a type.
func (w *eventWalk) typed(c *cursor) {
	var kind, delta, block, text []byte
	for c.enter('{'); c.more('}'); {
		switch name := c.name(); string(name) {
		case "message", "response": // where model and usage stand
			w.container(c)
		case "type":
			kind = c.value().in(c.b)
		case "delta":
			delta = c.value().in(c.b)
		case "content_block":
			block = c.value().in(c.b)
		case "text", "arguments", "refusal", "partial_image_b64":
			text = c.value().in(c.b)
		default:
			w.member(c, name)
		}
	}
	if w.ep == Responses {
		w.responsesEvent(kind, filled(delta) || filled(text))
	} else {
		w.messagesEvent(kind, delta, block)
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

// responsesEvent judges by the type of an event of /v1/responses.
func (w *eventWalk) responsesEvent(kind []byte, content bool) {
	if !isString(kind) {
		return
	}
	switch kind = kind[1 : len(kind)-1]; string(kind) {
	case "error", "response.failed":
		w.failed = true
	case "response.completed", "response.incomplete", "response.done": // the last one is OpenRouter's
		w.finished, w.last = choiceAt(0), true
	case "response.output_item.done", "response.content_part.done":
		w.token = true // a server may send an item whole, without deltas
	default:
		w.token = content && (bytes.HasSuffix(kind, []byte(".delta")) || bytes.HasSuffix(kind, []byte(".done")) ||
			bytes.HasSuffix(kind, []byte(".partial_image")))
	}
}

// messagesEvent judges by the type of an event of /v1/messages. What has no deltas (thinking that is encrypted, results of tools that
// the server runs) comes whole where its block begins.
func (w *eventWalk) messagesEvent(kind, delta, block []byte) {
	switch string(kind) {
	case `"error"`:
		w.failed = true
	case `"message_stop"`:
		w.finished, w.last = choiceAt(0), true
	case `"content_block_delta"`, `"message_delta"`:
		w.messagesContent(delta)
	case `"content_block_start"`:
		w.messagesContent(block)
	}
}

// messagesContent looks for what a model generates in a delta or a block.
func (w *eventWalk) messagesContent(part []byte) {
	if len(part) == 0 || part[0] != '{' {
		return
	}
	c := cursor{b: part, loose: true}
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "text", "thinking", "partial_json", "signature", "citation", "citations", "data", "content", "encrypted_content":
			w.token = filled(c.value().in(part)) || w.token
		case "stop_reason":
			if filled(c.value().in(part)) {
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
	f, ok := findError(legible(data))
	if !ok {
		f = foreignError{message: string(data)}
	}
	return EventFacts{Kind: ErrorEvent, Answer: judgeError(&f, Failed)}
}
