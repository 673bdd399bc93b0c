package sdk

import (
	"fmt"
	"strconv"
)

// completions is the dialect of text completions.
var completions = newCompletions()

func newCompletions() *dialect {
	d := &dialect{
		suffix:     "/completions",
		finish:     []string{textChunk("", `"stop"`), textEvent("[]", ","+usageJSON)},
		done:       chat.done,
		errorBody:  chat.errorBody,
		errorEvent: chat.errorEvent,
		body:       textCompletion("["+textChoice(textTold, `"stop"`)+"]", ","+usageJSON),
	}
	for _, fragment := range fragments {
		d.text = append(d.text, textChunk(fragment, "null"))
	}
	return d
}

func textChunk(text, finish string) string { return textEvent("["+textChoice(text, finish)+"]", "") }

func textEvent(choices, more string) string { return "data: " + textCompletion(choices, more) + "\n\n" }

func textChoice(text, finish string) string {
	return fmt.Sprintf(`{"index":0,"text":%s,"logprobs":null,"finish_reason":%s}`, strconv.Quote(text), finish)
}

// textCompletion is a body or a chunk: the dialect does not tell them apart.
func textCompletion(choices, more string) string {
	return fmt.Sprintf(`{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":%q,"choices":%s%s}`, physical, choices, more)
}
