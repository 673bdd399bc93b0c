package openai_test

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/openai"
)

func TestAnswersAreWholeWhenEveryChoiceIs(t *testing.T) {
	const stop = `,"delta":{},"finish_reason":"stop"}`
	cases := map[string]struct {
		events []string
		want   bool
	}{
		"nothing yet":                    {nil, false},
		"a token alone":                  {[]string{delta(`"content":"x"`)}, false},
		"usage alone":                    {[]string{`{"choices":[],"usage":{"prompt_tokens":2}}`}, false},
		"one choice":                     {[]string{delta(`"content":"x"`), `{"choices":[{"index":0` + stop + `]}`}, true},
		"one of two":                     {[]string{delta(`"content":"x"`), `{"choices":[{"index":1` + stop + `]}`}, false},
		"both of two":                    {[]string{delta(`"content":"x"`), `{"choices":[{"index":1` + stop + `,{"index":0` + stop + `]}`}, true},
		"the index behind the reason":    {[]string{delta(`"content":"x"`), `{"choices":[{"finish_reason":"stop","index":1}]}`}, false},
		"an index that is none":          {[]string{delta(`"content":"x"`), `{"choices":[{"index":"a"` + stop + `]}`}, true},
		"a negative index":               {[]string{delta(`"content":"x"`), `{"choices":[{"index":-1` + stop + `]}`}, true},
		"an index beyond all numbers":    {[]string{`{"choices":[{"index":99999999999999999999` + stop + `]}`}, true},
		"a word behind its finish":       {[]string{`{"choices":[{"index":0` + stop + `]}`, delta(`"content":"x"`)}, true},
		"a role of one not yet begun":    {[]string{`{"choices":[{"index":0` + stop + `]}`, `{"choices":[{"index":1,"delta":{"role":"assistant"}}]}`}, false},
		"one that is filtered has ended": {[]string{`{"choices":[{"index":0,"finish_reason":"content_filter","content_filter_results":{}}]}`}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var p openai.Progress
			for _, data := range tc.events {
				facts := openai.JudgeEvent(openai.ChatCompletions, nil, []byte(data))
				p.Add(&facts)
			}
			if p.Whole() != tc.want {
				t.Errorf("whole: %v", p.Whole())
			}
		})
	}
}
