package sdk

import (
	"fmt"
	"strconv"
)

// physical is the model that backends answer with.
const physical = "physical-model"

// dialect is what a backend says in one of the dialects, in the pieces that scripts put together.
type dialect struct {
	suffix string // of a backend's base URL

	prelude []string // events before the first token
	text    []string // events with textTold in them
	tools   []string // events of two tool calls, their arguments in fragments
	finish  []string // events at the end of a text
	called  []string // events at the end of tool calls
	done    string   // what follows the events; empty where the last event is the end

	body     string // the text as one body
	toolBody string // the tool calls as one body

	errorBody  func(status int, message string) string
	errorEvent string // an error in a stream
}

// textTold is what the events of dialect.text say.
const textTold = "Paris: naïve rain ☔, 東京: sun.\nEnd"

// fragments of textTold.
var fragments = []string{"Paris: na", "ïve rain ", "☔, 東", "京: sun.\nEnd"}

const reasoningTold = "Two cities, two lookups."

var (
	parisPieces = []string{`{"ci`, `ty":"Pa`, `ris"}`}
	tokyoPieces = []string{`{"city":`, `"東京"`, `}`}
)

var chat = newChat()

func newChat() *dialect {
	d := &dialect{
		suffix:  "/chat/completions",
		prelude: []string{chunk(`{"role":"assistant","content":""}`, "")},
		text:    []string{chunk(`{"reasoning_content":`+strconv.Quote(reasoningTold)+`}`, "")},
		finish:  []string{chunk(`{}`, "stop"), usageChunk},
		called:  []string{chunk(`{}`, "tool_calls"), usageChunk},
		done:    "data: [DONE]\n\n",
		errorBody: func(status int, message string) string {
			return fmt.Sprintf(`{"error":{"message":%q,"type":"backend_error","param":null,"code":"backend_%d"}}`, message, status)
		},
		errorEvent: `data: {"error":{"message":"the model crashed","type":"server_error","param":null,"code":"crashed"}}` + "\n\n",
	}
	for _, fragment := range fragments {
		d.text = append(d.text, chunk(`{"content":`+strconv.Quote(fragment)+`}`, ""))
	}
	for i, pieces := range [][]string{parisPieces, tokyoPieces} {
		d.tools = append(d.tools, chunk(fmt.Sprintf(
			`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"weather","arguments":""}}]}`, i, i), ""))
		for _, piece := range pieces {
			d.tools = append(d.tools, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, strconv.Quote(piece)), ""))
		}
	}
	d.body = completion(`"content":`+strconv.Quote(textTold)+`,"reasoning_content":`+strconv.Quote(reasoningTold), "stop")
	d.toolBody = completion(`"content":null,"tool_calls":[`+
		`{"id":"call_0","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}},`+
		`{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"東京\"}"}}]`, "tool_calls")
	return d
}

// chunk is one event of a chat completion.
func chunk(delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = strconv.Quote(finish)
	}
	return fmt.Sprintf(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":%q,`+
		`"choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}`+"\n\n", physical, delta, reason)
}

const usageJSON = `"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}`

const usageChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"` + physical +
	`","choices":[],` + usageJSON + "}\n\n"

func completion(message, finish string) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":%q,"choices":[{"index":0,`+
		`"message":{"role":"assistant",%s},"logprobs":null,"finish_reason":%q}],%s}`, physical, message, finish, usageJSON)
}

var messages = newMessages()

func newMessages() *dialect {
	d := &dialect{
		suffix: "/messages",
		prelude: []string{
			typed("message_start", `"message":`+message(`[]`, "null", 1)),
			typed("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
			typed("ping", ""),
		},
		finish: ending(`"end_turn"`, 0),
		called: ending(`"tool_use"`, 2),
		errorBody: func(_ int, text string) string {
			return fmt.Sprintf(`{"type":"error","error":{"type":"backend_error","message":%q}}`, text)
		},
		errorEvent: typed("error", `"error":{"type":"overloaded_error","message":"the model crashed"}`),
	}
	for _, fragment := range fragments {
		d.text = append(d.text, typed("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":`+strconv.Quote(fragment)+`}`))
	}
	d.tools = []string{typed("content_block_stop", `"index":0`)}
	for i, pieces := range [][]string{parisPieces, tokyoPieces} {
		if i > 0 {
			d.tools = append(d.tools, typed("content_block_stop", fmt.Sprintf(`"index":%d`, i)))
		}
		d.tools = append(d.tools, typed("content_block_start", fmt.Sprintf(
			`"index":%d,"content_block":{"type":"tool_use","id":"toolu_%d","name":"weather","input":{}}`, i+1, i)))
		for _, piece := range pieces {
			d.tools = append(d.tools, typed("content_block_delta", fmt.Sprintf(
				`"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i+1, strconv.Quote(piece))))
		}
	}
	d.body = message(`[{"type":"text","text":`+strconv.Quote(textTold)+`}]`, `"end_turn"`, 5)
	d.toolBody = message(`[{"type":"tool_use","id":"toolu_0","name":"weather","input":{"city":"Paris"}},`+
		`{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"東京"}}]`, `"tool_use"`, 5)
	return d
}

// typed is one event of the messages dialect.
func typed(kind, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, members)
}

func ending(reason string, block int) []string {
	return []string{
		typed("content_block_stop", fmt.Sprintf(`"index":%d`, block)),
		typed("message_delta", `"delta":{"stop_reason":`+reason+`,"stop_sequence":null},"usage":{"output_tokens":5}`),
		typed("message_stop", ""),
	}
}

func message(content, reason string, tokens int) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":%s,"stop_reason":%s,`+
		`"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":%d}}`, physical, content, reason, tokens)
}
