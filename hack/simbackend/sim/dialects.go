package sim

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
)

// dialect is how an endpoint words its answers. One without token has no streams.
type dialect struct {
	begin func(*answer) []event // what stands before the first token
	token func(a *answer, text string) []event
	end   func(a *answer, tokens []string, finish string) []event
	whole func(a *answer, tokens []string, finish string) object
	done  bool // a stream ends with [DONE]
}

type object = map[string]any

// event is one of a stream, with a name where the dialect has names.
type event struct {
	name string
	data object
}

var chatCompletions = dialect{
	begin: func(a *answer) []event { return a.chunk(object{"role": "assistant", "content": ""}, nil) },
	token: func(a *answer, text string) []event { return a.chunk(object{"content": text}, nil) },
	end: func(a *answer, tokens []string, finish string) []event {
		return append(a.chunk(object{}, finish), a.usageChunk("chat.completion.chunk", tokens)...)
	},
	whole: func(a *answer, tokens []string, finish string) object {
		message := object{"role": "assistant", "content": strings.Join(tokens, "")}
		return a.completion("chat.completion", tokens, object{"index": 0, "message": message, "finish_reason": finish})
	},
	done: true,
}

var textCompletions = dialect{
	begin: func(*answer) []event { return nil },
	token: func(a *answer, text string) []event { return a.text(text, nil) },
	end: func(a *answer, tokens []string, finish string) []event {
		return append(a.text("", finish), a.usageChunk("text_completion", tokens)...)
	},
	whole: func(a *answer, tokens []string, finish string) object {
		return a.completion("text_completion", tokens, object{"index": 0, "text": strings.Join(tokens, ""), "finish_reason": finish})
	},
	done: true,
}

var responses = dialect{
	begin: func(a *answer) []event {
		return named("response.created", object{"response": a.response("in_progress", nil)})
	},
	token: func(_ *answer, text string) []event {
		return named("response.output_text.delta", object{"output_index": 0, "content_index": 0, "delta": text})
	},
	end: func(a *answer, tokens []string, finish string) []event {
		return named("response."+statuses[finish], object{"response": a.response(statuses[finish], tokens)})
	},
	whole: func(a *answer, tokens []string, finish string) object { return a.response(statuses[finish], tokens) },
}

var messages = dialect{
	begin: func(a *answer) []event {
		return append(named("message_start", object{"message": a.message(nil, nil)}),
			named("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})...)
	},
	token: func(_ *answer, text string) []event {
		return named("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
	},
	end: func(_ *answer, tokens []string, finish string) []event {
		last := object{"delta": object{"stop_reason": stopReasons[finish]}, "usage": object{"output_tokens": len(tokens)}}
		return append(append(named("content_block_stop", object{"index": 0}), named("message_delta", last)...),
			named("message_stop", object{})...)
	},
	whole: func(a *answer, tokens []string, finish string) object { return a.message(tokens, stopReasons[finish]) },
}

// embeddings are two numbers for each input, as numbers or as base64.
var embeddings = dialect{
	whole: func(a *answer, _ []string, _ string) object {
		var inputs []json.RawMessage
		if json.Unmarshal(a.request.Input, &inputs) != nil || len(inputs) == 0 {
			inputs = []json.RawMessage{a.request.Input}
		}
		data := make([]object, len(inputs))
		for i, input := range inputs {
			vector := []float32{float32(len(input)), float32(i)}
			data[i] = object{"object": "embedding", "index": i, "embedding": vector}
			if a.request.EncodingFormat == "base64" {
				var raw bytes.Buffer
				_ = binary.Write(&raw, binary.LittleEndian, vector) // a buffer takes all
				data[i]["embedding"] = base64.StdEncoding.EncodeToString(raw.Bytes())
			}
		}
		return object{"object": "list", "model": a.request.Model, "data": data, "usage": usage(0)}
	},
}

// named is an event whose name stands in its data, too.
func named(name string, data object) []event {
	data["type"] = name
	return []event{{name, data}}
}

func (a *answer) chunk(delta object, finish any) []event {
	return []event{{data: a.envelope("chat.completion.chunk", object{"index": 0, "delta": delta, "finish_reason": finish})}}
}

func (a *answer) text(text string, finish any) []event {
	return []event{{data: a.envelope("text_completion", object{"index": 0, "text": text, "finish_reason": finish})}}
}

// usageChunk is the event with the usage, where the request asks for one.
func (a *answer) usageChunk(kind string, tokens []string) []event {
	if !a.request.StreamOptions.IncludeUsage {
		return nil
	}
	last := a.envelope(kind)
	last["usage"] = usage(len(tokens))
	return []event{{data: last}}
}

func (a *answer) completion(kind string, tokens []string, choice object) object {
	body := a.envelope(kind, choice)
	body["usage"] = usage(len(tokens))
	return body
}

func (a *answer) envelope(kind string, choices ...object) object {
	return object{"id": "chatcmpl-" + a.backend.config.Name, "object": kind, "created": 0, "model": a.request.Model,
		"choices": append([]object{}, choices...)}
}

// response is the object of /v1/responses, with the whole text where there is one.
func (a *answer) response(status string, tokens []string) object {
	body := object{"id": "resp_" + a.backend.config.Name, "object": "response", "created_at": 0, "model": a.request.Model,
		"status": status, "output": []object{}}
	if tokens != nil {
		text := object{"type": "output_text", "text": strings.Join(tokens, ""), "annotations": []any{}}
		body["output"] = []object{{"id": "msg_0", "type": "message", "role": "assistant", "status": status, "content": []object{text}}}
		body["usage"] = object{"input_tokens": prompt, "output_tokens": len(tokens), "total_tokens": prompt + len(tokens)}
	}
	return body
}

// message is the object of /v1/messages, with the whole text where there is one.
func (a *answer) message(tokens []string, stop any) object {
	content := []object{}
	if tokens != nil {
		content = []object{{"type": "text", "text": strings.Join(tokens, "")}}
	}
	return object{"id": "msg_" + a.backend.config.Name, "type": "message", "role": "assistant", "model": a.request.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": prompt, "output_tokens": len(tokens)}}
}

// What dialects call an end.
var (
	statuses    = map[string]string{"stop": "completed", "length": "incomplete"} // of /v1/responses
	stopReasons = map[string]string{"stop": "end_turn", "length": "max_tokens"}  // of /v1/messages
)
