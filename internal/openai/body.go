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
	w := bodyWalk{answerWalk: answerWalk{ep: ep}}
	c := cursor{b: body, loose: true}
	w.walk(&c)
	if !c.end() {
		return BodyFacts{Answer: Answer{Class: Invalid, Reason: whyNoJSON(body)}}
	}
	if w.failed {
		f, _ := findError(legible(body))
		return BodyFacts{Answer: judgeError(&f, Invalid)}
	}
	if !w.answers() {
		return BodyFacts{Answer: Answer{Class: Invalid, Reason: "no answer in the body"}}
	}
	return BodyFacts{Answer: Answer{Class: Success, Status: 200}, Usage: w.usage, Model: w.model}
}

// bodyWalk gathers what a body says while the cursor passes over it.
type bodyWalk struct {
	answerWalk
	data            bool // an array that begins with an object
	output, content bool // arrays, perhaps empty
}

func (w *bodyWalk) walk(c *cursor) {
	for c.enter('{'); c.more('}'); {
		switch name := c.name(); string(name) {
		case "data":
			w.data = startsWith(c.value().in(c.b), '[', '{')
		case "output":
			w.output = startsWith(c.value().in(c.b), '[', 0)
		case "content":
			w.content = startsWith(c.value().in(c.b), '[', 0)
		case "status": // of a response
			w.failed = string(c.value().in(c.b)) == `"failed"` || w.failed
		default:
			w.member(c, name)
		}
	}
}

// answers says whether the body holds what the dialect answers with.
func (w *bodyWalk) answers() bool {
	switch w.ep {
	case Embeddings:
		return w.data
	case Responses:
		return w.output
	case Messages:
		return w.content
	default:
		return w.count > 0 && w.spoken == w.count
	}
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
