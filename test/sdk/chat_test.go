package sdk

import (
	"fmt"
	"strconv"
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
