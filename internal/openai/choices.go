package openai

import "strconv"

// answerWalk gathers what bodies and events of all dialects have in common.
type answerWalk struct {
	ep     Endpoint
	failed bool // an error is in it
	usage  Usage
	model  Span

	// Of choices: how many there are, how many have what one is there for, and what they say.
	count, spoken   int
	foreign, token  bool
	begun, finished Choices
}

// member takes a member's value, whatever it is.
func (w *answerWalk) member(c *cursor, name []byte) {
	switch string(name) {
	case "choices":
		w.choices(c)
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

// choices walks over the choices of a chunk, or of a whole answer.
func (w *answerWalk) choices(c *cursor) {
	if !w.ep.Converts() || c.peek() != '[' {
		c.value()
		return
	}
	for c.enter('['); c.more(']'); w.count++ {
		if c.peek() != '{' {
			c.value()
			continue
		}
		w.choice(c)
	}
}

// words are what a choice has in the form of one dialect.
type words struct{ there, say bool }

// choiceWalk gathers what one choice says.
type choiceWalk struct {
	index            int64 // without one it is the first
	message, text    words
	finished, failed bool
}

// choice walks over one choice.
func (w *answerWalk) choice(c *cursor) {
	var one choiceWalk
	for c.enter('{'); c.more('}'); {
		one.member(c, c.name())
	}
	w.settle(&one)
}

func (o *choiceWalk) member(c *cursor, name []byte) {
	switch string(name) {
	case "index":
		o.index, _ = strconv.ParseInt(string(c.value().in(c.b)), 10, 64) // what is no number is 0
	case "delta", "message":
		o.message.there = c.peek() != 'n' || o.message.there
		o.message.say = generates(c) || o.message.say
	case "text":
		value := c.value().in(c.b)
		o.text = words{there: !isNull(value), say: filled(value)}
	case "finish_reason":
		reason := c.value().in(c.b)
		o.finished = filled(reason)
		o.failed = isBreak(reason) || o.failed
	case "error":
		o.failed = isFault(c.value().in(c.b)) || o.failed
	default:
		c.value()
	}
}

// settle takes what a choice has in the form of its own dialect, and of the other one that has choices. Some servers send both.
func (w *answerWalk) settle(one *choiceWalk) {
	own, others := one.message, one.text
	if w.ep == Completions {
		own, others = others, own
	}
	if own.there {
		w.spoken++
	}
	w.token = own.say || w.token
	w.foreign = others.say && !own.there || w.foreign
	w.failed = one.failed || w.failed
	w.begun |= choiceAt(one.index)
	if one.finished {
		w.finished |= choiceAt(one.index)
	}
}

// isBreak says whether a finish reason is none: vLLM and others end what they gave up like a whole answer.
func isBreak(reason []byte) bool { return string(reason) == `"error"` || string(reason) == `"abort"` }

// generates walks over a message or a delta of the chat dialect and says whether there is anything in it that a model generates.
func generates(c *cursor) bool {
	if c.peek() != '{' {
		c.value()
		return false
	}
	yes := false
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "content", "reasoning", "reasoning_content", "reasoning_details", "reasoning_text", "thinking_blocks",
			"refusal", "audio", "images", "tool_calls", "function_call":
			yes = filled(c.value().in(c.b)) || yes
		default:
			c.value()
		}
	}
	return yes
}
