package sdk

import (
	"fmt"
	"strconv"
)

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
