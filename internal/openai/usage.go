package openai

import "strconv"

// Usage counts tokens; Known is false where the backend told nothing.
type Usage struct {
	Prompt, Completion int64
	Known              bool
}

// Merge takes the newer usage's counts where it has them. Usage in a stream is a running total and never adds up; one
// dialect tells the prompt's count first and the completion's last.
func (u *Usage) Merge(newer Usage) {
	if !newer.Known {
		return
	}
	u.Known = true
	if newer.Prompt > 0 {
		u.Prompt = newer.Prompt
	}
	if newer.Completion > 0 {
		u.Completion = newer.Completion
	}
}

// usage consumes a usage object of any dialect, or another value.
func (c *cursor) usage() Usage {
	var u Usage
	if c.peek() != '{' {
		c.value()
		return u
	}
	for c.enter('{'); c.more('}'); {
		name := c.name()
		v := c.value().in(c.b)
		switch string(name) {
		case "prompt_tokens", "input_tokens":
			u.count(&u.Prompt, v)
		case "completion_tokens", "output_tokens":
			u.count(&u.Completion, v)
		}
	}
	return u
}

func (u *Usage) count(into *int64, v []byte) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 0 {
		*into, u.Known = n, true
	}
}
