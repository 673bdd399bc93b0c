package stream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/stream"
)

// chunk is a chat chunk with the given delta.
func chunk(delta string) string {
	return `{"id":"c","created":1694268190,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

const finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func TestAssembler(t *testing.T) {
	whole := func(message, reason string) string {
		return `{"id":"c","object":"chat.completion","created":1694268190,"model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":` + reason + `}]}`
	}
	twice := func(index int, member string) string {
		return fmt.Sprintf(`{"choices":[{"index":%[1]d,"delta":{%[2]s}},{"index":%[1]d,"message":{%[2]s}}]}`, index, member)
	}
	once := func(index int, member string) string {
		return fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":null,%s},"finish_reason":null}`, index, member)
	}
	for name, tc := range map[string]struct {
		data []string
		want string
	}{
		"content concatenates": {
			[]string{chunk(`{"role":"assistant","content":""}`), chunk(`{"content":"a"}`), chunk(`{"content":"北"}`), finish, "[DONE]"},
			whole(`{"role":"assistant","content":"a北"}`, `"stop"`),
		},
		"reasoning concatenates, under the name that it came with": {
			[]string{chunk(`{"reasoning_content":"O"}`), chunk(`{"reasoning_content":"k","content":null}`), chunk(`{"reasoning":"x"}`), chunk(`{"content":"a"}`)},
			whole(`{"role":"assistant","content":"a","reasoning":"x","reasoning_content":"Ok"}`, `null`),
		},
		"reasoning stays absent when the stream carried none": {
			[]string{chunk(`{"content":"a"}`)}, whole(`{"role":"assistant","content":"a"}`, `null`),
		},
		"empty reasoning is not absent": {
			[]string{chunk(`{"content":"a","reasoning":""}`)}, whole(`{"role":"assistant","content":"a","reasoning":""}`, `null`),
		},
		"tool-call fragments are joined per index": {
			[]string{
				chunk(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`),
				chunk(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}`),
				chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"q\":1}"}},{"index":1,"function":{"arguments":"}"}}]}`),
			},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`, `null`),
		},
		"tool calls keep the order in which they appeared": {
			[]string{chunk(`{"tool_calls":[{"index":1,"id":"b"}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a"}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"","arguments":""}},{"id":"a","type":"function","function":{"name":"","arguments":""}}]}`, `null`),
		},
		"B8 missing indexes are tolerated": {
			[]string{
				chunk(`{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":"}}]}`),
				chunk(`{"tool_calls":[{"function":{"arguments":"1}"}}]}`),
				chunk(`{"tool_calls":[{"id":"b","type":"function","function":{"name":"f","arguments":"{\"q\":"}}]}`),
				chunk(`{"tool_calls":[{"function":{"arguments":"2}"}}]}`),
			},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{\"q\":2}"}}]}`, `null`),
		},
		"B8 the same index for every call": {
			[]string{
				chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"2"}}]}`),
				chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"3"}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"4"}}]}`),
			},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"12"}},{"id":"b","type":"function","function":{"name":"f","arguments":"34"}}]}`, `null`),
		},
		"an id that comes after the index": {
			[]string{chunk(`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"1"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"1"}}]}`, `null`),
		},
		"an index that comes after the id": {
			[]string{chunk(`{"tool_calls":[{"id":"a","function":{"name":"f"}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"1"}}]}`, `null`),
		},
		"an id that is repeated": {
			[]string{chunk(`{"tool_calls":[{"index":0,"id":"a","type":"custom","function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"2"}}]}`),
				chunk(`{"tool_calls":[{"id":"a","function":{"arguments":"3"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"custom","function":{"name":"f","arguments":"123"}}]}`, `null`),
		},
		"names alone tell calls apart": {
			[]string{chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"function":{"arguments":"2"}}]}`), chunk(`{"tool_calls":[{"function":{"name":"g","arguments":"3"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"12"}},{"type":"function","function":{"name":"g","arguments":"3"}}]}`, `null`),
		},
		"and so do whole arguments, where one function is called twice": {
			[]string{chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"{\"q\":"}}]}`), chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"1}"}}]}`), chunk(`{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"q\":1}"}},{"type":"function","function":{"name":"f","arguments":"{}"}}]}`, `null`),
		},
		"names tell calls apart that have one index, and a name that is repeated does not": {
			[]string{chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":" "}}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"name":"g","arguments":"3"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f","arguments":"{} "}},{"type":"function","function":{"name":"g","arguments":"3"}}]}`, `null`),
		},
		"ids tell fragments apart that have one index, whichever call was last": {
			[]string{chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"2"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"3"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"13"}},{"id":"b","type":"function","function":{"name":"f","arguments":"2"}}]}`, `null`),
		},
		"a new id in each fragment, where the index stays and the name is not told again": {
			[]string{
				chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":null,"arguments":"1"}}]}`),
				chunk(`{"tool_calls":[{"index":1,"id":"c","function":{"name":"f","arguments":""}}]}`), chunk(`{"tool_calls":[{"index":1,"id":"d","function":{"name":"","arguments":"3"}}]}`),
				chunk(`{"tool_calls":[{"index":0,"id":"e","function":{"arguments":"2"}}]}`),
			},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"12"}},{"id":"c","type":"function","function":{"name":"f","arguments":"3"}}]}`, `null`),
		},
		"a new id in each fragment, where all calls have one index": {
			[]string{
				chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"2"}}]}`),
				chunk(`{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"3"}}]}`),
			},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"1"}},{"id":"b","type":"function","function":{"name":"g","arguments":"23"}}]}`, `null`),
		},
		"a new id without an index and a name": {
			[]string{chunk(`{"tool_calls":[{"id":"a","function":{"arguments":"1"}}]}`), chunk(`{"tool_calls":[{"id":"b","function":{"arguments":"2"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"","arguments":"1"}},{"id":"b","type":"function","function":{"name":"","arguments":"2"}}]}`, `null`),
		},
		"an id with a name, both repeated": {
			[]string{chunk(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}}]}`), chunk(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"2"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"12"}}]}`, `null`),
		},
		"a name that comes after the id, and arguments before both": {
			[]string{chunk(`{"tool_calls":[{"index":0,"function":{"name":null,"arguments":"1"}}]}`), chunk(`{"tool_calls":[{"index":0,"id":"a"}]}`), chunk(`{"tool_calls":[{"index":0,"function":{"name":"f"}}]}`)},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"1"}}]}`, `null`),
		},
		"lists are joined, and what is none is empty": {
			[]string{chunk(`{"reasoning_details":[{"r":1}],"annotations":[{"a":1}],"images":[{"i":1}]}`), chunk(`{"reasoning_details":[{"r":2}],"annotations":5,"images":[{"i":2}]}`)},
			whole(`{"role":"assistant","content":null,"reasoning_details":[{"r":1},{"r":2}],"annotations":[{"a":1}],"images":[{"i":1},{"i":2}]}`, `null`),
		},
		"what stands above the choices is the first of each": {
			[]string{`{"id":"1","created":5,"model":"m","system_fingerprint":"f","service_tier":"t","choices":[{"delta":{"role":"tool","content":"a"},"finish_reason":"","logprobs":{"refusal":[{"token":"r"}]}}]}`,
				`{"id":"2","created":6,"model":"n","system_fingerprint":"g","service_tier":"u","choices":[{"delta":{"role":"user"},"finish_reason":"stop"}]}`, `{"choices":[{"finish_reason":""}]}`},
			`{"id":"1","object":"chat.completion","created":5,"model":"m","system_fingerprint":"f","service_tier":"t","choices":[{"index":0,"message":{"role":"tool","content":"a"},"logprobs":{"refusal":[{"token":"r"}]},"finish_reason":"stop"}]}`,
		},
		"what stands above the choices does not cost the answer, whatever its type": {
			[]string{`{"id":5,"created":"2024-01-01","model":null,"system_fingerprint":{},"service_tier":true,"choices":[{"delta":{"content":"a"}}]}`, `{"id":"","created":1e999,"choices":[]}`, `{"created":"NaN","choices":[]}`, `{"created":"","choices":[]}`, `{"created":"7","choices":[]}`},
			`{"id":"5","object":"chat.completion","created":7,"model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`,
		},
		"a refusal is kept": {
			[]string{chunk(`{"refusal":"N"}`), chunk(`{"refusal":"o"}`), finish}, whole(`{"role":"assistant","content":null,"refusal":"No"}`, `"stop"`),
		},
		"audio and a function call of old are kept": {
			[]string{chunk(`{"audio":{"id":"a","data":"QU","transcript":"h"}}`), chunk(`{"audio":{"data":"JD","transcript":"i","expires_at":5},"function_call":{"name":"f","arguments":"{"}}`), chunk(`{"function_call":{"arguments":"}"}}`)},
			whole(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"},"audio":{"id":"a","data":"QUJD","transcript":"hi","expires_at":5}}`, `null`),
		},
		"words that came as numbers": {
			[]string{chunk(`{"content":"$"}`), chunk(`{"content":0.005}`), chunk(`{"content":true,"reasoning_content":6}`)}, whole(`{"role":"assistant","content":"$0.005true","reasoning_content":"6"}`, `null`),
		},
		"parts whose other member is empty": {
			[]string{chunk(`{"content":[{"type":"text","text":"a","thinking":null},{"type":"text","text":"b","thinking":""},{"type":"thinking","text":null,"thinking":"c"}]}`)}, whole(`{"role":"assistant","content":"ab","reasoning_content":"c"}`, `null`),
		},
		"reasoning as one part": {
			[]string{chunk(`{"reasoning_content":{"text":"a"}}`), chunk(`{"reasoning_content":{"text":"b"}}`), chunk(`{"reasoning_content":{"signature":"s"}}`), chunk(`{"content":"c"}`)}, whole(`{"role":"assistant","content":"c","reasoning_content":"ab"}`, `null`),
		},
		"content as parts": {
			[]string{chunk(`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`)}, whole(`{"role":"assistant","content":"ab"}`, `null`),
		},
		"content as parts that think": {
			[]string{
				chunk(`{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"O"}]}]}`),
				chunk(`{"content":[{"type":"thinking","thinking":"k"},{"type":"thinking","thinking":{"odd":1}},{"type":"thinking","thinking":null}]}`),
				chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"ay"}]},{"type":"text","text":"a"}]}`), chunk(`{"content":"b"}`),
			},
			whole(`{"role":"assistant","content":"ab","reasoning_content":"Okay"}`, `null`),
		},
		"thinking alone is no content": {
			[]string{chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"O"}]}],"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`)},
			whole(`{"role":"assistant","content":null,"reasoning_content":"O","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `null`),
		},
		"a list without parts is empty content": {
			[]string{chunk(`{"content":[]}`)}, whole(`{"role":"assistant","content":""}`, `null`),
		},
		"usage is the last one, with all its details": {
			[]string{`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, `{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"x":{"y":1}}}`, `{"choices":null,"usage":null}`},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"x":{"y":1}}}`,
		},
		"choices are sorted, log probabilities joined": {
			[]string{
				`{"choices":[{"index":1,"delta":{"content":"b"},"logprobs":{"content":[{"token":"b"}]}},{"index":0,"delta":{"content":"a"}}]}`,
				`{"choices":[{"index":1,"delta":{"content":"c"},"logprobs":{"content":[{"token":"c"}]},"finish_reason":"length"}]}`,
			},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null},` +
				`{"index":1,"message":{"role":"assistant","content":"bc"},"logprobs":{"content":[{"token":"b"},{"token":"c"}]},"finish_reason":"length"}]}`,
		},
		"log probabilities of another form do not cost the answer": {
			[]string{`{"choices":[{"delta":{"content":"a"},"logprobs":-0.25}]}`, `{"choices":[{"delta":{"content":"b"},"logprobs":{"content":5,"tokens":["b"]}}]}`, `{"choices":[{"delta":{"content":"c"},"logprobs":[]}]}`},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"abc"},"logprobs":{},"finish_reason":null}]}`,
		},
		"a message beside the deltas says the same again": {
			[]string{
				`{"choices":[{"delta":{"role":"assistant","content":"a"},"message":{"role":"assistant","content":"a"}}]}`,
				`{"choices":[{"delta":{"content":"b"},"message":{"role":"assistant","content":"ab"}}]}`,
				`{"choices":[{"delta":{"role":"assistant","content":""},"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}`,
			},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}`,
		},
		"and so does one behind them": {
			[]string{chunk(`{"reasoning_content":"Ok"}`), chunk(`{"content":"a"}`), `{"choices":[{"message":{"content":"a","reasoning_content":"Ok"},"finish_reason":"stop"}]}`},
			whole(`{"role":"assistant","content":"a","reasoning_content":"Ok"}`, `"stop"`),
		},
		"one behind tool calls, too": {
			[]string{chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`), `{"choices":[{"message":{"tool_calls":[{"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
			whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`),
		},
		"one behind thinking, too": {
			[]string{chunk(`{"content":[{"type":"thinking","thinking":"O"}]}`), `{"choices":[{"message":{"content":[{"type":"thinking","thinking":"O"}]},"finish_reason":"length"}]}`},
			whole(`{"role":"assistant","content":null,"reasoning_content":"O"}`, `"length"`),
		},
		"one behind whatever else a delta says, too": {
			[]string{
				twice(0, `"reasoning":"O"`), twice(1, `"reasoning_content":"O"`), twice(2, `"refusal":"N"`), twice(3, `"reasoning_details":[1]`), twice(4, `"annotations":[1]`), twice(5, `"images":[1]`),
				twice(6, `"function_call":{"name":"f","arguments":"{}"}`), twice(7, `"audio":{"data":"QUJD"}`),
			},
			`{"object":"chat.completion","model":"","choices":[` + once(0, `"reasoning":"O"`) + "," + once(1, `"reasoning_content":"O"`) + "," + once(2, `"refusal":"N"`) + "," + once(3, `"reasoning_details":[1]`) + "," +
				once(4, `"annotations":[1]`) + "," + once(5, `"images":[1]`) + "," + once(6, `"function_call":{"name":"f","arguments":"{}"}`) + "," + once(7, `"audio":{"data":"QUJD"}`) + `]}`,
		},
		"but not where the delta is empty": {
			[]string{`{"choices":[{"delta":{"role":"assistant","content":"","tool_calls":[]},"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`,
		},
		"messages in place of deltas": {
			[]string{`{"choices":[{"message":{"content":"a"}}]}`, `{"choices":[{"delta":{},"message":{"content":"b"}}]}`},
			`{"object":"chat.completion","model":"","choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":null}]}`,
		},
		"a whole completion is taken as it is": {
			[]string{whole(`{"role":"assistant","content":"a","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"stop"`)},
			whole(`{"role":"assistant","content":"a","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"stop"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var a stream.Assembler
			for _, d := range tc.data {
				if err := a.Add([]byte(d)); err != nil {
					t.Fatal(err)
				}
			}
			whole, err := a.Completion()
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(whole)
			if diff := cmp.Diff(tc.want, string(got)); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCompletionInGo(t *testing.T) {
	var a stream.Assembler
	if err := a.Add([]byte(`{"choices":[{"delta":{}}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`)); err != nil {
		t.Fatal(err)
	}
	got, err := a.Completion()
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Choices[0].Message.Text(); text != "" {
		t.Errorf("content that was absent is %q", text)
	}
	if u := got.Usage; u.PromptTokens != 2 || u.CompletionTokens != 1 || u.TotalTokens != 3 {
		t.Errorf("usage %+v", u)
	}
}

func TestAssemblerFinished(t *testing.T) {
	var a stream.Assembler
	if a.Finished() {
		t.Error("finished before it began")
	}
	for _, step := range []struct {
		data string
		want bool
	}{
		{chunk(`{"content":"a"}`), false}, {finish, true}, {`{"choices":[]}`, true},
		{`{"choices":[{"index":1,"delta":{"content":"b"}}]}`, false}, {`{"choices":[{"index":1,"finish_reason":"length"}]}`, true},
	} {
		if err := a.Add([]byte(step.data)); err != nil || a.Finished() != step.want {
			t.Errorf("after %s: %v, error %v", step.data, a.Finished(), err)
		}
	}
}

func TestAssemblerErrors(t *testing.T) {
	var a stream.Assembler
	var told *stream.Error
	if err := a.Add([]byte(`{"error":{"message":"m","code":"c"}}`)); !errors.As(err, &told) || told.Code != "c" {
		t.Errorf("an error within the data: %v", err)
	}
	for _, bad := range []string{`{`, `hi`, `{"choices":1}`, `{"choices":[{"delta":{"content":[1]}}]}`} {
		if err := a.Add([]byte(bad)); err == nil || errors.As(err, &told) {
			t.Errorf("%s: error %v", bad, err)
		}
	}
	if err := errors.Join(a.Add(nil), a.Add([]byte(" ")), a.Add([]byte("[DONE]")), a.Add([]byte("null"))); err != nil {
		t.Error(err)
	}
	if _, err := a.Completion(); !errors.Is(err, stream.ErrNoChoices) {
		t.Errorf("nothing to assemble: %v", err)
	}
}

func FuzzAssembler(f *testing.F) {
	f.Add([]byte(chunk(`{"content":"a"}`)), []byte(finish))
	f.Add([]byte(chunk(`{"tool_calls":[{"id":"a"}]}`)), []byte(chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"1"}}]}`)))
	f.Add([]byte(chunk(`{"tool_calls":[{"id":"b","type":"function","function":{"name":"f","arguments":"{\"q\":"}}]}`)), []byte(chunk(`{"tool_calls":[{"function":{"arguments":"1}"}}]}`)))
	f.Add([]byte(chunk(`{"role":"assistant","content":null}`)), []byte(chunk(`{"reasoning_content":"Okay"}`)))
	f.Add([]byte(chunk(`{"reasoning":"Okay","content":null}`)), []byte(`{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`))
	f.Add([]byte(`{"choices":null}`), []byte(`null`))
	f.Add([]byte(`{"error":{"type":"overloaded_error","message":"Overloaded"}}`), []byte(`{"error":"Unexpected endpoint or method."}`))
	f.Add([]byte(`{"choices":[{"index":-5,"message":{"audio":{"data":"x"},"function_call":{}}}],"usage":{}}`), []byte(`{"error":[]}`))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var a stream.Assembler
		_, _ = a.Add(one), a.Add(two)
		whole, err := a.Completion()
		if err != nil {
			return
		}
		text, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		var again stream.Assembler
		if err := again.Add(text); err != nil {
			t.Fatalf("its own completion is refused: %v\n%s", err, text)
		}
	})
}
