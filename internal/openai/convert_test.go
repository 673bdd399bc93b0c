package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
)

func TestAppendStream(t *testing.T) {
	for name, tc := range map[string]struct {
		ep    openai.Endpoint
		body  string
		usage bool
		want  []string
	}{
		"chat": {
			ep: openai.ChatCompletions, body: completion,
			want: []string{
				`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}`,
				`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		"usage for those who asked": {
			ep: openai.ChatCompletions, body: `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":2}}`, usage: true,
			want: []string{
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`,
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
				`{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":2}}`,
			},
		},
		"tool calls get the index that clients join by": {
			ep:   openai.ChatCompletions,
			body: `{"choices":[{"index":1,"message":{"content":null,"tool_calls":[{"id":"a"},{"id":"b","index":5}],"x":1.0},"finish_reason":"tool_calls"}]}`,
			want: []string{
				`{"object":"chat.completion.chunk","choices":[{"index":1,"delta":{"content":null,"tool_calls":[{"id":"a","index":0},{"id":"b","index":5}],"x":1.0},"finish_reason":null}]}`,
				`{"object":"chat.completion.chunk","choices":[{"index":1,"delta":{},"finish_reason":"tool_calls"}]}`,
			},
		},
		"tool calls behind half a character get it too": {
			ep: openai.ChatCompletions, body: "{\"choices\":[{\"message\":{\"content\":\"\xe5\",\"tool_calls\":[{\"id\":\"a\"}]},\"finish_reason\":\"tool_calls\"}]}",
			want: []string{
				"{\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xe5\",\"tool_calls\":[{\"id\":\"a\",\"index\":0}]},\"finish_reason\":null}]}",
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
			},
		},
		"a pretty-printed body becomes events of one line": {
			ep: openai.ChatCompletions, body: "{\n \"id\": \"c\",\n \"choices\": [\n {\"message\":\n{\"content\": \"a\\nb\"}, \"logprobs\": {\n}}]}",
			want: []string{
				`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a\nb"},"logprobs":{},"finish_reason":null}]}`,
				`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		"numbers that are none become null": {
			ep: openai.ChatCompletions, body: `{"id":"NaN","choices":[{"message":{"content":"-Infinity"},"logprobs":[NaN, -Infinity,Infinity,-1]}]}`,
			want: []string{
				`{"id":"NaN","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"-Infinity"},"logprobs":[null,null,null,-1],"finish_reason":null}]}`,
				`{"id":"NaN","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			},
		},
		"one chunk for a whole answer": {
			ep: openai.ChatCompletions, body: `{"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}`,
			want: []string{
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`,
				`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`,
			},
		},
		"text": {
			ep: openai.Completions, body: `{"object":"text_completion","choices":[{"text":"x","index":0,"finish_reason":"length"},{"text":"y","index":1}]}`,
			want: []string{
				`{"object":"text_completion","choices":[{"index":0,"text":"x","finish_reason":null},{"index":1,"text":"y","finish_reason":null}]}`,
				`{"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":"length"},{"index":1,"text":"","finish_reason":"stop"}]}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := openai.AppendStream(nil, tc.ep, []byte(tc.body), tc.usage)
			if err != nil {
				t.Fatal(err)
			}
			want := "data: " + strings.Join(append(tc.want, "[DONE]"), "\n\ndata: ") + "\n\n"
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAppendStreamRefusesWhatItCannotConvert(t *testing.T) {
	for name, tc := range map[string]struct {
		ep   openai.Endpoint
		body string
	}{
		"another dialect":              {openai.Responses, `{"output":[]}`},
		"no JSON":                      {openai.ChatCompletions, `{`},
		"choices that are no list":     {openai.ChatCompletions, `{"choices":1}`},
		"a message that is no message": {openai.ChatCompletions, `{"choices":[{"message":1}]}`},
		"a text in place of a message": {openai.ChatCompletions, `{"choices":[{"text":"x"}]}`},
		"a message in place of a text": {openai.Completions, completion},
		"tool calls that are no list":  {openai.ChatCompletions, `{"choices":[{"message":{"tool_calls":1}}]}`},
	} {
		if got, err := openai.AppendStream([]byte("x"), tc.ep, []byte(tc.body), false); err == nil || string(got) != "x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestCollector(t *testing.T) {
	for name, tc := range map[string]struct {
		ep   openai.Endpoint
		data []string
		want string
	}{
		"chat": {
			ep: openai.ChatCompletions,
			data: []string{
				`{"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"<a"}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"b>"},"finish_reason":"stop"}]}`,
				`{"choices":[],"usage":{"prompt_tokens":2,"details":{"x":1}}}`, `[DONE]`,
			},
			want: `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"<ab>"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"details":{"x":1}}}`,
		},
		"numbers that are none": {
			ep:   openai.ChatCompletions,
			data: []string{`{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{"logprob":-Infinity},NaN]}}],"usage":{"prompt_tokens":2.0,"x":NaN}}`},
			want: `{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"logprobs":{"content":[{"logprob":null},null]},"finish_reason":null}],"usage":{"prompt_tokens":2.0,"x":null}}`,
		},
		"an error that is empty": {
			ep:   openai.ChatCompletions,
			data: []string{`{"error":{},"choices":[{"delta":{"content":"x"},"error":null,"finish_reason":"stop"}]}`},
			want: `{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`,
		},
		"what is no text": {
			ep: openai.ChatCompletions,
			data: []string{
				`{"choices":[{"delta":{"content":"","images":[{"url":"a"}],"reasoning_details":[{"data":"E"}]}}]}`,
				`{"choices":[{"delta":{"images":[{"url":"b"}],"annotations":[{"type":"url_citation"}],"reasoning_details":null},"finish_reason":"stop"}]}`,
			},
			want: `{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"","reasoning_details":[{"data":"E"}],` +
				`"annotations":[{"type":"url_citation"}],"images":[{"url":"a"},{"url":"b"}]},"finish_reason":"stop"}]}`,
		},
		"text, with two choices that take turns": {
			ep: openai.Completions,
			data: []string{
				`{"id":"c","model":"m","choices":[{"index":1,"text":"x","logprobs":{"tokens":["x"]}}]}`,
				`{"created":5,"choices":[{"index":0,"text":"a"}]}`,
				`{"choices":[{"index":1,"text":"y","finish_reason":"stop","logprobs":{"tokens":["y"]}},{"index":0,"text":"b","finish_reason":"length"}],"usage":{"prompt_tokens":1}}`, `[DONE]`,
			},
			want: `{"id":"c","object":"text_completion","created":5,"model":"m","choices":[{"index":0,"text":"ab","logprobs":null,"finish_reason":"length"},` +
				`{"index":1,"text":"xy","logprobs":{"tokens":["x","y"],"token_logprobs":null,"top_logprobs":null,"text_offset":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := openai.NewCollector(tc.ep)
			for _, data := range tc.data {
				if err := c.Add([]byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.Body()
			if diff := cmp.Diff(tc.want, string(got)); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCollectorNeedsAChoice(t *testing.T) {
	for _, ep := range []openai.Endpoint{openai.ChatCompletions, openai.Completions} {
		c := openai.NewCollector(ep)
		if err := c.Add([]byte(`{"choices":[]}`)); err != nil {
			t.Error(err)
		}
		if _, err := c.Body(); !errors.Is(err, stream.ErrNoChoices) {
			t.Errorf("%v: error %v", ep, err)
		}
		if err := c.Add([]byte(`{"choices":`)); err == nil {
			t.Errorf("%v: half a chunk is taken", ep)
		}
	}
	c := openai.NewCollector(openai.Messages)
	if _, err := c.Body(); err == nil || c.Add([]byte(`{}`)) == nil {
		t.Error("a dialect that is not converted is taken")
	}
}

// roundTrip turns a completion into a stream and back; where that works, the result must be an answer.
func roundTrip(t *testing.T, ep openai.Endpoint, body []byte) {
	t.Helper()
	events, err := openai.AppendStream(nil, ep, body, true)
	if err != nil {
		return
	}
	var s sse.Scanner
	s.Feed(events)
	c := openai.NewCollector(ep)
	for ev, ok := s.Next(); ok; ev, ok = s.Next() {
		if string(ev.Data) != "[DONE]" && !json.Valid(ev.Data) {
			t.Fatalf("an event that is no JSON: %q", ev.Data)
		}
		if c.Add(ev.Data) != nil {
			return
		}
	}
	if whole, err := c.Body(); err != nil || openai.JudgeBody(ep, whole).Answer.Class != openai.Success {
		t.Fatalf("round trip of %s: %v %s", body, err, whole)
	}
}
