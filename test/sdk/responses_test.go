package sdk

import (
	"fmt"
	"strconv"
	"strings"
)

var responses = newResponses()

// responseFailed is how the dialect ends what it cannot finish.
var responseFailed = typed("response.failed", `"response":`+strings.Replace(response("failed", ""), `"error":null`,
	`"error":{"code":"server_error","message":"the model crashed"}`, 1))

func newResponses() *dialect {
	textItem := textOutput("completed", `[`+textPart(textTold)+`]`)
	d := &dialect{
		suffix: "/responses",
		prelude: []string{
			typed("response.created", `"response":`+response("in_progress", "")),
			typed("response.in_progress", `"response":`+response("in_progress", "")),
		},
		finish: []string{
			typed("response.output_text.done", `"item_id":"msg_1","output_index":0,"content_index":0,"logprobs":[],"text":`+strconv.Quote(textTold)),
			typed("response.content_part.done", `"item_id":"msg_1","output_index":0,"content_index":0,"part":`+textPart(textTold)),
			typed("response.output_item.done", `"output_index":0,"item":`+textItem),
			typed("response.completed", `"response":`+response("completed", textItem)),
		},
		errorBody:  chat.errorBody,
		errorEvent: typed("error", `"error":{"message":"the model crashed","type":"server_error","param":null,"code":"crashed"}`),
		body:       response("completed", textItem),
	}
	d.text = []string{
		typed("response.output_item.added", `"output_index":0,"item":`+textOutput("in_progress", `[]`)),
		typed("response.content_part.added", `"item_id":"msg_1","output_index":0,"content_index":0,"part":`+textPart("")),
	}
	for _, fragment := range fragments {
		d.text = append(d.text, typed("response.output_text.delta",
			`"item_id":"msg_1","output_index":0,"content_index":0,"logprobs":[],"delta":`+strconv.Quote(fragment)))
	}
	calls := ""
	for i, pieces := range [][]string{parisPieces, tokyoPieces} {
		d.tools = append(d.tools, typed("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":%s`, i, callOutput(i, nil))))
		for _, piece := range pieces {
			d.tools = append(d.tools, typed("response.function_call_arguments.delta",
				fmt.Sprintf(`"item_id":"fc_%d","output_index":%d,"delta":%s`, i, i, strconv.Quote(piece))))
		}
		d.tools = append(d.tools,
			typed("response.function_call_arguments.done", fmt.Sprintf(`"item_id":"fc_%d","output_index":%d,"name":"weather","arguments":%s`,
				i, i, strconv.Quote(strings.Join(pieces, "")))),
			typed("response.output_item.done", fmt.Sprintf(`"output_index":%d,"item":%s`, i, callOutput(i, pieces))))
		calls += "," + callOutput(i, pieces)
	}
	d.toolBody = response("completed", calls[1:])
	d.called = []string{typed("response.completed", `"response":`+d.toolBody)}
	return d
}

func response(status, output string) string {
	usage := "null"
	if status == "completed" {
		usage = `{"input_tokens":7,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}`
	}
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1700000000,"status":%q,"error":null,"incomplete_details":null,`+
		`"instructions":null,"metadata":{},"model":%q,"output":[%s],"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto",`+
		`"tools":[],"top_p":1,"usage":%s}`, status, physical, output, usage)
}

func textOutput(status, content string) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","status":%q,"role":"assistant","content":%s}`, status, content)
}

func textPart(text string) string {
	return `{"type":"output_text","annotations":[],"logprobs":[],"text":` + strconv.Quote(text) + `}`
}

// callOutput is a tool call; without pieces, one that has just begun.
func callOutput(i int, pieces []string) string {
	status := "completed"
	if pieces == nil {
		status = "in_progress"
	}
	return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%q,"call_id":"call_%d","name":"weather","arguments":%s}`,
		i, status, i, strconv.Quote(strings.Join(pieces, "")))
}
