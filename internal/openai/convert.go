package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/sse"
)

// errNoConversion says that the dialect has no two forms of an answer that this package can turn into each other.
var errNoConversion = errors.New("openai: answers of this endpoint are not converted")

// errNoWords says that a choice has nothing in it that belongs into a stream of its dialect.
var errNoWords = errors.New("openai: a choice without what its dialect says")

// object is a JSON object whose values stay as they came.
type object map[string]json.RawMessage

// headMembers are the top-level members that a completion shares with its chunks, in the order in which they are
// written.
var headMembers = [...]string{"id", "object", "created", "model", "system_fingerprint", "service_tier"}

// AppendStream appends a JSON completion as the stream that the caller asked for: chunk, finish, usage where
// includeUsage is set and known, [DONE]. The endpoint must convert and the body must have been judged a Success.
func AppendStream(dst []byte, ep Endpoint, body []byte, includeUsage bool) ([]byte, error) {
	if !ep.Converts() {
		return dst, errNoConversion
	}
	body = strict(body)
	var head object
	if err := json.Unmarshal(body, &head); err != nil {
		return dst, fmt.Errorf("openai: completion: %w", err)
	}
	var choices []object
	if err := json.Unmarshal(head["choices"], &choices); err != nil {
		return dst, fmt.Errorf("openai: choices of a completion: %w", err)
	}
	if ep == ChatCompletions {
		head["object"] = json.RawMessage(`"chat.completion.chunk"`)
	}
	var content, finish [][]byte
	for i, choice := range choices {
		first, last, err := splitChoice(ep, i, choice)
		if err != nil {
			return dst, err
		}
		content, finish = append(content, first), append(finish, last)
	}
	dst = appendChunk(dst, head, content, nil)
	dst = appendChunk(dst, head, finish, nil)
	if usage := head["usage"]; includeUsage && !isNull(usage) {
		dst = appendChunk(dst, head, nil, usage)
	}
	return append(dst, sse.Done...), nil
}

// appendChunk appends one event with the completion's head and the given choices, on one line: a body may be
// pretty-printed, and clients exist that read only the first data line.
func appendChunk(dst []byte, head object, choices [][]byte, usage json.RawMessage) []byte {
	out := []byte{'{'}
	for _, name := range headMembers {
		out = appendMember(out, name, head[name])
	}
	out = appendMember(out, "choices", append(append([]byte{'['}, bytes.Join(choices, []byte{','})...), ']'))
	out = appendMember(out, "usage", usage)
	var line bytes.Buffer
	if json.Compact(&line, append(out, '}')) == nil { // always: each value has been decoded before
		dst = sse.AppendData(dst, line.Bytes())
	}
	return dst
}

// appendMember appends a member of an object; one without a value is left out.
func appendMember(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	dst = append(appendQuoted(dst, name), ':')
	return append(dst, value...)
}

// splitChoice renders one choice of a completion as the choice of its content chunk and that of its finish chunk.
func splitChoice(ep Endpoint, i int, choice object) (content, finish []byte, err error) {
	index := choice["index"]
	if index == nil {
		index = fmt.Append(nil, i)
	}
	name, empty, value := "text", `""`, []byte(choice["text"])
	if ep == ChatCompletions {
		name, empty = "delta", "{}"
		if value, err = deltaOf(choice); err != nil {
			return nil, nil, err
		}
	} else if isNull(value) {
		return nil, nil, errNoWords
	}
	reason := choice["finish_reason"]
	if isNull(reason) {
		reason = json.RawMessage(`"stop"`) // a whole answer has ended, whatever it forgot to say
	}
	content = appendMember([]byte{'{'}, "index", index)
	content = appendMember(content, name, value)
	content = appendMember(content, "logprobs", choice["logprobs"])
	content = append(content, `,"finish_reason":null}`...)
	finish = appendMember([]byte{'{'}, "index", index)
	finish = appendMember(finish, name, []byte(empty))
	finish = appendMember(finish, "finish_reason", reason)
	return content, append(finish, '}'), nil
}

// deltaOf returns the message of a choice as a delta: its tool calls need an index, by which clients join their fragments.
// Where a backend sent one chunk for a whole answer, its delta is the message.
func deltaOf(choice object) ([]byte, error) {
	message := choice["message"]
	if isNull(message) {
		message = choice["delta"]
	}
	if isNull(message) {
		return nil, errNoWords
	}
	var m struct {
		ToolCalls []object `json:"tool_calls"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("openai: message of a completion: %w", err)
	}
	if len(m.ToolCalls) == 0 {
		return message, nil
	}
	for i, call := range m.ToolCalls {
		if call != nil && call["index"] == nil {
			call["index"] = fmt.Append(nil, i)
		}
	}
	calls, err := json.Marshal(m.ToolCalls)
	if err != nil {
		return nil, fmt.Errorf("openai: tool calls of a completion: %w", err)
	}
	return AppendReplaced(nil, message, memberOf(message, "tool_calls"), calls), nil
}

// memberOf finds a member's value in an object; the last one counts, as for every decoder.
func memberOf(body []byte, name string) Span {
	var at Span
	c := cursor{b: body, loose: true}
	for c.enter('{'); c.more('}'); {
		if string(c.name()) == name {
			at = c.value()
		} else {
			c.value()
		}
	}
	return at
}

// Collector assembles a stream into the one JSON completion that the caller asked for. Make one with NewCollector.
type Collector struct {
	ep   Endpoint
	chat stream.Assembler
	text textCompletion
}

// NewCollector returns a Collector for an endpoint that converts.
func NewCollector(ep Endpoint) *Collector { return &Collector{ep: ep} }

// Add takes the data of one event; [DONE] is ignored. An error means that it is no chunk of the dialect.
func (c *Collector) Add(data []byte) error {
	data = strict(data)
	switch c.ep {
	case ChatCompletions:
		return c.chat.Add(data)
	case Completions:
		return c.text.add(data)
	default:
		return errNoConversion
	}
}

// Body returns the completion. It is an error when no chunk with a choice was seen.
func (c *Collector) Body() ([]byte, error) {
	switch c.ep {
	case ChatCompletions:
		whole, err := c.chat.Completion()
		if err != nil {
			return nil, err
		}
		return encode(whole)
	case Completions:
		return c.text.body()
	default:
		return nil, errNoConversion
	}
}

// encode is json.Marshal without escaping what only HTML pages must fear.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("openai: completion: %w", err)
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
