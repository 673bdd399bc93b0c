package openai_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-dev/spillway/internal/openai"
)

// delta is a chat chunk with the given delta.
func delta(members string) string {
	return `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`
}

type eventCase struct {
	ep         openai.Endpoint // zero: chat completions
	name, data string
	want       openai.EventFacts // without Model, Begun and Reason
}

var (
	token   = openai.EventFacts{Kind: openai.Token}
	finish  = openai.EventFacts{Kind: openai.Token, Finished: 1}
	prelude = openai.EventFacts{}
	last    = openai.EventFacts{Kind: openai.Token, Finished: 1, Last: true}
)

func failure(class openai.Class, status int) openai.EventFacts {
	return openai.EventFacts{Kind: openai.ErrorEvent, Answer: openai.Answer{Class: class, Status: status}}
}

func usage(prompt, completion int64) openai.EventFacts {
	return openai.EventFacts{Usage: openai.Usage{Prompt: prompt, Completion: completion, Known: true}}
}

var eventCases = map[string]eventCase{
	"content":                                 {data: delta(`"content":"x"`), want: token},
	"content beside a role":                   {data: delta(`"role":"assistant","content":"x"`), want: token},
	"content as parts":                        {data: delta(`"content":[{"type":"text","text":"x"}]`), want: token},
	"role alone":                              {data: delta(`"role":"assistant"`), want: prelude},
	"role with empty content":                 {data: delta(`"role":"assistant","content":""`), want: prelude},
	"an empty delta":                          {data: delta(``), want: prelude},
	"empty tool calls and null audio":         {data: delta(`"tool_calls":[ ],"audio":null,"refusal":""`), want: prelude},
	"delta is null":                           {data: `{"choices":[{"delta":null}]}`, want: prelude},
	"B6 role with null content":               {data: delta(`"role":"assistant","content":null`), want: prelude},
	"B6 reasoning_content":                    {data: delta(`"reasoning_content":"Okay"`), want: token},
	"B6 reasoning":                            {data: delta(`"reasoning":"Okay"`), want: token},
	"B6 reasoning beside null content":        {data: delta(`"content":null,"reasoning":"Okay"`), want: token},
	"B6 empty reasoning":                      {data: delta(`"reasoning":"","reasoning_content":null`), want: prelude},
	"B6 a refusal":                            {data: delta(`"refusal":"No"`), want: token},
	"B6 audio":                                {data: delta(`"audio":{"id":"a"}`), want: token},
	"B6 B8 a tool call without index":         {data: delta(`"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":"}}]`), want: token},
	"B8 a fragment without anything but text": {data: delta(`"tool_calls":[{"function":{"arguments":"1}"}}]`), want: token},
	"a function call of old":                  {data: delta(`"function_call":{"name":"f"}`), want: token},
	"a finish reason":                         {data: `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, want: finish},
	"B8 finish by tool calls":                 {data: `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, want: finish},
	"an empty finish reason":                  {data: `{"choices":[{"index":0,"delta":{},"finish_reason":""}]}`, want: prelude},
	"the second choice carries the token":     {data: `{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"x"}}]}`, want: token},
	"a message in place of a delta":           {data: `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, want: finish},
	"B7 usage alone":                          {data: `{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`, want: usage(2, 1)},
	"B7 choices are null":                     {data: `{"choices":null}`, want: prelude},
	"B7 a chunk without choices":              {data: `{"object":"chat.completion.chunk","usage":{"prompt_tokens":2}}`, want: usage(2, 0)},
	"usage is null":                           {data: `{"choices":[],"usage":null}`, want: prelude},
	"usage of odd types":                      {data: `{"choices":[],"usage":{"prompt_tokens":"2","completion_tokens":-1,"x":{"prompt_tokens":5}}}`, want: prelude},
	"prompt filter results":                   {data: `{"choices":[],"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}`, want: prelude},
	"choices of odd types":                    {data: `{"choices":[null,1,"x",[{"delta":{"content":"x"}}]]}`, want: prelude},
	"choices is an object":                    {data: `{"choices":{"delta":{"content":"x"}}}`, want: prelude},
	"content at the wrong depth":              {data: `{"content":"x","delta":{"content":"x"}}`, want: prelude},
	"an error that is null":                   {data: `{"error":null,"choices":[{"delta":{"content":"x"}}]}`, want: token},
	"an error that is empty":                  {data: `{"error":"","choices":[{"delta":{"content":"x"}}]}`, want: token},
	"an error without members":                {data: `{"error":{},"choices":[{"delta":{"content":"x"}}]}`, want: token},
	"half a character":                        {data: delta("\"content\":\"\xe5\x8c\""), want: token},
	"a finish behind half a character":        {data: "{\"choices\":[{\"delta\":{\"content\":\"\xe5\"},\"finish_reason\":\"stop\"}]}", want: finish},
	"numbers that are none":                   {data: `{"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{"logprob":-Infinity},NaN]}}]}`, want: token},
	"images":                                  {data: delta(`"images":[{"type":"image_url"}]`), want: token},
	"[DONE]":                                  {data: `[DONE]`, want: openai.EventFacts{Kind: openai.DoneEvent}},
	"[DONE] with space":                       {data: ` [DONE] `, want: openai.EventFacts{Kind: openai.DoneEvent}},
	"no JSON":                                 {data: `hello`, want: prelude},
	"half JSON":                               {data: `{"choices":[{"delta":{"content":"x"`, want: prelude},
	"JSON that is no object":                  {data: `[1]`, want: prelude},
	"empty data":                              {data: ``, want: prelude},
	"G7 a ping":                               {name: "ping", data: `{}`, want: prelude},
	"G7 a named event of metadata":            {name: "route", data: `{"backend":"a"}`, want: prelude},
	"reasoning under other names":             {data: delta(`"content":"","reasoning_text":"x"`), want: token},
	"thinking in blocks":                      {data: delta(`"content":"","thinking_blocks":[{"type":"redacted_thinking"}]`), want: token},
	"news of a prompt that is being read":     {data: `{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}],"prompt_progress":{"total":9,"processed":3}}`, want: prelude},
	"a filter's results beside no words":      {data: `{"choices":[{"index":0,"delta":{},"finish_reason":null,"content_filter_results":{"hate":{"filtered":false}}}]}`, want: prelude},
	"a token's logprobs without the token":    {data: `{"choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"x"}]}}]}`, want: prelude},
	"text in a chat":                          {data: `{"choices":[{"index":0,"text":"x","finish_reason":null}]}`, want: failure(openai.Invalid, 0)},
	"text beside a delta":                     {data: `{"choices":[{"index":0,"text":"x","delta":{"content":"x"}}]}`, want: token},
	"text beside a delta without words":       {data: `{"choices":[{"index":0,"text":"x","delta":{}}]}`, want: prelude},
	"a delta in a text completion":            {ep: openai.Completions, data: delta(`"content":"x"`), want: failure(openai.Invalid, 0)},
	"a delta beside text":                     {ep: openai.Completions, data: `{"choices":[{"index":0,"text":"","delta":{"content":"x"}}]}`, want: prelude},
	"a text completion":                       {ep: openai.Completions, data: `{"choices":[{"index":0,"text":"x","finish_reason":null}]}`, want: token},
	"an empty text completion":                {ep: openai.Completions, data: `{"choices":[{"index":0,"text":"","finish_reason":null}]}`, want: prelude},
	"a text completion ends":                  {ep: openai.Completions, data: `{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`, want: finish},

	"an error in a choice":                {data: `{"choices":[{"index":0,"delta":{"content":""},"error":{"code":429,"message":"x"},"finish_reason":"error"}]}`, want: failure(openai.Refused, 429)},
	"an error in the second choice":       {data: `{"choices":[{"index":0,"delta":{}},{"index":1,"error":{"code":400}},{"index":2,"error":{"code":500}}]}`, want: failure(openai.Rejected, 400)},
	"an error in a choice that is null":   {data: `{"choices":[{"index":0,"delta":{"content":"x"},"error":null}]}`, want: token},
	"an error above that of a choice":     {data: `{"error":{"code":503},"choices":[{"error":{"code":400}}]}`, want: failure(openai.Failed, 503)},
	"a finish that is an error":           {data: `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"error"}]}`, want: failure(openai.Failed, 0)},
	"a finish that is an abort":           {data: `{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`, want: failure(openai.Failed, 0)},
	"B4 overloaded":                       {name: "error", data: `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, want: failure(openai.Refused, 529)},
	"an error without a name":             {data: `{"error":{"message":"boom","code":502}}`, want: failure(openai.Failed, 502)},
	"an error whose code is a string":     {data: `{"error":{"message":"boom","code":"502"}}`, want: failure(openai.Failed, 502)},
	"an error that tells nothing":         {data: `{"error":{"message":"boom"}}`, want: failure(openai.Failed, 0)},
	"an error as a string":                {data: `{"error":"boom"}`, want: failure(openai.Failed, 0)},
	"an error as a string about load":     {data: `{"error":"server busy, please try again"}`, want: failure(openai.Refused, 503)},
	"an error beside choices":             {data: `{"error":{"code":429},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}`, want: failure(openai.Refused, 429)},
	"an error by its name, as text":       {name: "error", data: `boom`, want: failure(openai.Failed, 0)},
	"an error by its object":              {data: `{"object":"error","message":"bad","type":"BadRequestError","code":400}`, want: failure(openai.Rejected, 400)},
	"an error of the caller":              {data: `{"error":{"type":"invalid_request_error"}}`, want: failure(openai.Rejected, 400)},
	"an error about the window":           {data: `{"error":{"code":"context_length_exceeded","type":"invalid_request_error"}}`, want: failure(openai.TooLong, 400)},
	"an error about our key":              {data: `{"error":{"code":"invalid_api_key"}}`, want: failure(openai.Misconfigured, 401)},
	"an error with a status as a string":  {data: `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, want: failure(openai.Refused, 429)},
	"an error whose status is beside it":  {data: `{"error":"boom","code":503}`, want: failure(openai.Failed, 503)},
	"an error with a code that is a date": {data: `{"error":{"code":20260101}}`, want: failure(openai.Failed, 0)},
	"an error of another proxy of this kind": {data: `{"error":{"code":"backend_saturated","retry_after_ms":2000}}`, want: openai.EventFacts{
		Kind: openai.ErrorEvent, Answer: openai.Answer{Class: openai.Refused, Status: 503, RetryAfter: 2 * time.Second, HasRetryAfter: true},
	}},
	"an error event without quota": {data: `{"error":{"code":"insufficient_quota"}}`, want: openai.EventFacts{
		Kind: openai.ErrorEvent, Answer: openai.Answer{Class: openai.Refused, Status: 429, Quota: true},
	}},

	"responses: created":               {ep: openai.Responses, data: `{"type":"response.created","response":{"id":"r","model":"m","error":null,"usage":null,"output":[]}}`, want: prelude},
	"responses: an item begins":        {ep: openai.Responses, data: `{"type":"response.output_item.added","item":{"type":"message"}}`, want: prelude},
	"responses: a delta":               {ep: openai.Responses, data: `{"type":"response.output_text.delta","delta":"x"}`, want: token},
	"responses: an empty delta":        {ep: openai.Responses, data: `{"type":"response.output_text.delta","delta":""}`, want: prelude},
	"responses: arguments":             {ep: openai.Responses, data: `{"type":"response.function_call_arguments.delta","delta":"{"}`, want: token},
	"responses: reasoning":             {ep: openai.Responses, data: `{"type":"response.reasoning_summary_text.delta","delta":"x"}`, want: token},
	"responses: whole text":            {ep: openai.Responses, data: `{"type":"response.output_text.done","text":"x"}`, want: token},
	"responses: completed":             {ep: openai.Responses, data: `{"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4}}}`, want: openai.EventFacts{Kind: openai.Token, Finished: 1, Last: true, Usage: openai.Usage{Prompt: 3, Completion: 4, Known: true}}},
	"responses: incomplete":            {ep: openai.Responses, data: `{"type":"response.incomplete","response":{}}`, want: last},
	"responses: done":                  {ep: openai.Responses, data: `{"type":"response.done","response":{"status":"completed","error":null}}`, want: last},
	"responses: failed":                {ep: openai.Responses, data: `{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}`, want: failure(openai.Refused, 429)},
	"responses: failed by an image":    {ep: openai.Responses, data: `{"type":"response.failed","response":{"error":{"code":"invalid_base64_image","message":"m"}}}`, want: failure(openai.Rejected, 400)},
	"responses: failed without a word": {ep: openai.Responses, data: `{"type":"response.failed","response":{"error":null}}`, want: failure(openai.Failed, 0)},
	"responses: overloaded":            {ep: openai.Responses, data: `{"type":"error","error":{"code":"server_is_overloaded","message":"m"}}`, want: failure(openai.Refused, 529)},
	"responses: error":                 {ep: openai.Responses, data: `{"type":"error","code":"server_error","message":"m"}`, want: failure(openai.Failed, 500)},
	"responses: a chat chunk":          {ep: openai.Responses, data: delta(`"content":"x"`), want: prelude},
	"messages: start":                  {ep: openai.Messages, data: `{"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":7,"output_tokens":1}}}`, want: usage(7, 1)},
	"messages: ping":                   {ep: openai.Messages, name: "ping", data: `{"type":"ping"}`, want: prelude},
	"messages: a block begins":         {ep: openai.Messages, data: `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, want: prelude},
	"messages: text":                   {ep: openai.Messages, data: `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, want: token},
	"messages: half a character":       {ep: openai.Messages, data: "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\xe5\"}}", want: token},
	"messages: redacted thinking":      {ep: openai.Messages, data: `{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"E"}}`, want: token},
	"messages: a tool's block begins":  {ep: openai.Messages, data: `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`, want: prelude},
	"messages: a tool's result":        {ep: openai.Messages, data: `{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","content":[{"url":"u"}]}}`, want: token},
	"messages: a block of nothing":     {ep: openai.Messages, data: `{"type":"content_block_start","index":0,"content_block":null}`, want: prelude},
	"messages: a signature":            {ep: openai.Messages, data: `{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"E"}}`, want: token},
	"messages: a compaction":           {ep: openai.Messages, data: `{"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"x"}}`, want: token},
	"messages: thinking":               {ep: openai.Messages, data: `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}`, want: token},
	"messages: empty tool input":       {ep: openai.Messages, data: `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}`, want: prelude},
	"messages: a stop reason":          {ep: openai.Messages, data: `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, want: openai.EventFacts{Kind: openai.Token, Finished: 1, Usage: openai.Usage{Completion: 9, Known: true}}},
	"messages: stop":                   {ep: openai.Messages, data: `{"type":"message_stop"}`, want: last},
	"messages: overloaded":             {ep: openai.Messages, name: "error", data: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: failure(openai.Refused, 529)},
	"messages: an error without name":  {ep: openai.Messages, data: `{"type":"error","error":{"type":"api_error","message":"m"}}`, want: failure(openai.Failed, 500)},
}

func TestJudgeEvent(t *testing.T) {
	for name, tc := range eventCases {
		t.Run(name, func(t *testing.T) {
			ep := max(tc.ep, openai.ChatCompletions)
			got := openai.JudgeEvent(ep, []byte(tc.name), []byte(tc.data))
			ignored := cmp.Options{
				cmpopts.IgnoreFields(openai.EventFacts{}, "Model", "Begun"), cmpopts.IgnoreFields(openai.Answer{}, "Reason"),
			}
			if diff := cmp.Diff(tc.want, got, ignored); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeEventFindsTheModel(t *testing.T) {
	for name, tc := range map[string]struct {
		ep         openai.Endpoint
		data, want string
	}{
		"chat":                  {openai.ChatCompletions, delta(`"content":"x","model":"no"`), `"m"`},
		"text":                  {openai.Completions, `{"model":"m","choices":[]}`, `"m"`},
		"responses":             {openai.Responses, `{"type":"response.created","response":{"model":"m","tools":[{"model":"no"}]}}`, `"m"`},
		"messages":              {openai.Messages, `{"type":"message_start","message":{"model":"m"}}`, `"m"`},
		"none":                  {openai.ChatCompletions, `{"choices":[{"model":"no"}]}`, ``},
		"a model that is null":  {openai.ChatCompletions, `{"model":null}`, ``},
		"no JSON, so no splice": {openai.ChatCompletions, `{"model":"m"`, ``},
	} {
		got := openai.JudgeEvent(tc.ep, nil, []byte(tc.data)).Model
		if text := tc.data[got.Start:got.End]; text != tc.want || got.Found() != (tc.want != "") {
			t.Errorf("%s: %q, want %q", name, text, tc.want)
		}
		rewritten := string(openai.AppendReplaced(nil, []byte(tc.data), got, openai.Quote("logical")))
		if again := openai.JudgeEvent(tc.ep, nil, []byte(rewritten)).Model; got.Found() && rewritten[again.Start:again.End] != `"logical"` {
			t.Errorf("%s: rewritten to %s", name, rewritten)
		}
	}
}

func TestJudgeEventDoesNotAllocate(t *testing.T) {
	data := []byte(delta(`"content":"x"`))
	if n := testing.AllocsPerRun(100, func() { openai.JudgeEvent(openai.ChatCompletions, nil, data) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUsageIsARunningTotal(t *testing.T) {
	var u openai.Usage
	for _, newer := range []openai.Usage{{Prompt: 7, Completion: 1, Known: true}, {}, {Completion: 9, Known: true}} {
		u.Merge(newer)
	}
	if want := (openai.Usage{Prompt: 7, Completion: 9, Known: true}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
}

func FuzzJudge(f *testing.F) {
	for _, tc := range eventCases {
		f.Add(uint8(tc.ep), tc.name, []byte(tc.data))
	}
	for _, tc := range bodyCases {
		f.Add(uint8(tc.ep), "", []byte(tc.body))
	}
	f.Fuzz(func(t *testing.T, ep uint8, name string, data []byte) {
		endpoint := openai.ChatCompletions + openai.Endpoint(ep)%openai.Messages
		event := openai.JudgeEvent(endpoint, []byte(name), data)
		body := openai.JudgeBody(endpoint, data)
		for _, at := range []openai.Span{event.Model, body.Model} {
			if at.Found() && (data[at.Start] != '"' || data[at.End-1] != '"') {
				t.Errorf("model at %q", data[at.Start:at.End])
			}
		}
		openai.JudgeStatus(&openai.Response{Status: 400, Body: data})
		openai.Sniff(data, true)
		mustBeEnvelope(t, openai.AppendRejection(nil, data, 422), 422)
		if body.Answer.Class == openai.Success && endpoint.Converts() {
			roundTrip(t, endpoint, data)
		}
	})
}

func BenchmarkJudgeEvent(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1694268190,"model":"gpt-4o-mini","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		openai.JudgeEvent(openai.ChatCompletions, nil, data)
	}
}
