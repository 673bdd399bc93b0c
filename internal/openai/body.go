package openai

import "bytes"

// BodyFacts is what one whole JSON body says.
type BodyFacts struct {
	Answer Answer
	Usage  Usage
	// Model is the value of the answer's model, quotes included.
	Model Span
}

// JudgeBody judges the whole body of a 2xx to a request that did not stream, by its content, whatever its type says.
func JudgeBody(ep Endpoint, body []byte) BodyFacts {
	var w bodyWalk
	c := cursor{b: body, loose: true}
	if c.peek() == '{' {
		w.walk(&c)
	}
	if c.i == 0 || !c.end() {
		return BodyFacts{Answer: Answer{Class: Invalid, Reason: whyNoJSON(body)}}
	}
	if w.failed {
		f, _ := findError(legible(body))
		return BodyFacts{Answer: judgeError(&f, Invalid)}
	}
	if !w.answers(ep) {
		return BodyFacts{Answer: Answer{Class: Invalid, Reason: "no answer in the body"}}
	}
	return BodyFacts{Answer: Answer{Class: Success, Status: 200}, Usage: w.usage, Model: w.model}
}

// bodyWalk gathers what a body says while the cursor passes over it.
type bodyWalk struct {
	answerWalk
	choices         bool // an array whose first choice says something
	data            bool // an array that begins with an object
	output, content bool // arrays, perhaps empty
}

func (w *bodyWalk) walk(c *cursor) {
	for c.enter('{'); c.more('}'); {
		switch name := c.name(); string(name) {
		case "choices":
			w.choices = saysSomething(c.value().in(c.b))
		case "data":
			w.data = startsWith(c.value().in(c.b), '[', '{')
		case "output":
			w.output = startsWith(c.value().in(c.b), '[', 0)
		case "content":
			w.content = startsWith(c.value().in(c.b), '[', 0)
		default:
			w.member(c, name)
		}
	}
}

// answers says whether the body holds what the dialect answers with.
func (w *bodyWalk) answers(ep Endpoint) bool {
	switch ep {
	case Embeddings:
		return w.data
	case Responses:
		return w.output
	case Messages:
		return w.content
	default:
		return w.choices
	}
}

// saysSomething says whether the first of an answer's choices has what one is there for.
func saysSomething(choices []byte) bool {
	if !startsWith(choices, '[', '{') {
		return false
	}
	c := cursor{b: choices, loose: true}
	c.enter('[')
	for c.enter('{'); c.more('}'); {
		switch string(c.name()) {
		case "message", "text", "delta":
			if !isNull(c.value().in(choices)) {
				return true
			}
		default:
			c.value()
		}
	}
	return false
}

// startsWith says whether a value begins with first and, where second is not 0, goes on with it.
func startsWith(v []byte, first, second byte) bool {
	if len(v) == 0 || v[0] != first {
		return false
	}
	inside := cursor{b: v, i: 1}
	return second == 0 || inside.peek() == second
}

func whyNoJSON(body []byte) string {
	switch rest := bytes.TrimSpace(body); {
	case len(rest) == 0:
		return "an empty body"
	case rest[0] == '<':
		return "HTML instead of an answer"
	default:
		return "no whole JSON object in the body"
	}
}
