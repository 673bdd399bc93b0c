package openai_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/spillway-dev/spillway/internal/openai"
)

const completion = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`

type bodyCase struct {
	ep         openai.Endpoint // zero: chat completions
	body       string
	want       openai.Class
	wantStatus int // of an error inside; 200 for a success
}

var bodyCases = map[string]bodyCase{
	"an answer":                               {body: completion, want: openai.Success, wantStatus: 200},
	"B1 an error with a code":                 {body: `{"error":{"message":"ResourceExhausted: worker limit reached (1)","code":502}}`, want: openai.Failed, wantStatus: 502},
	"B1 empty choices":                        {body: `{"choices":[]}`, want: openai.Invalid},
	"B1 a choice without a message":           {body: `{"choices":[{"index":0,"finish_reason":"stop"}]}`, want: openai.Invalid},
	"B1 a message that is null":               {body: `{"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}`, want: openai.Invalid},
	"a message without words":                 {body: `{"choices":[{"index":0,"message":{}}]}`, want: openai.Success, wantStatus: 200},
	"a text without words":                    {ep: openai.Completions, body: `{"choices":[{"finish_reason":"stop","text":""}]}`, want: openai.Success, wantStatus: 200},
	"B1 choices are null":                     {body: `{"choices":null}`, want: openai.Invalid},
	"B1 a body that is cut":                   {body: completion[:len(completion)/2], want: openai.Invalid},
	"B1 an error that is null beside choices": {body: `{"error":null,` + completion[1:], want: openai.Success, wantStatus: 200},
	"an error in a choice":                    {body: `{"choices":[{"message":{"content":""},"error":{"code":429,"message":"x"},"finish_reason":"error"}]}`, want: openai.Refused, wantStatus: 429},
	"an error in a choice that is null":       {body: `{"choices":[{"message":{"content":""},"error":null}]}`, want: openai.Success, wantStatus: 200},
	"an error in a choice, as words":          {body: `{"choices":[{"message":{"content":""},"error":"boom"}]}`, want: openai.Invalid},
	"a finish that is an error":               {body: `{"choices":[{"message":{"content":"x"},"finish_reason":"error"}]}`, want: openai.Invalid},
	"a finish that is an abort":               {body: `{"choices":[{"message":{"content":"x"},"finish_reason":"abort"}]}`, want: openai.Invalid},
	"text in a chat":                          {body: `{"choices":[{"text":"x"}]}`, want: openai.Invalid},
	"text beside a message":                   {body: `{"choices":[{"text":"x","message":{"content":"x"}}]}`, want: openai.Success, wantStatus: 200},
	"a message in a text completion":          {ep: openai.Completions, body: completion, want: openai.Invalid},
	"one of two choices without a message":    {body: `{"choices":[{"message":{"content":"x"}},{"message":null}]}`, want: openai.Invalid},
	"an error beside choices":                 {body: `{"error":{"code":429},` + completion[1:], want: openai.Refused, wantStatus: 429},
	"an error that tells nothing":             {body: `{"error":{"message":"boom"}}`, want: openai.Invalid},
	"an error that is false":                  {body: `{"error":false}`, want: openai.Invalid},
	"an error that is false beside choices":   {body: `{"error":false,` + completion[1:], want: openai.Success, wantStatus: 200},
	"an empty error beside choices":           {body: `{"error":"",` + completion[1:], want: openai.Success, wantStatus: 200},
	"an error without members beside choices": {body: `{"error":{ },` + completion[1:], want: openai.Success, wantStatus: 200},
	"an error that is true beside choices":    {body: `{"error":true,` + completion[1:], want: openai.Invalid},
	"a list of no errors beside choices":      {body: `{"error":[],` + completion[1:], want: openai.Success, wantStatus: 200},
	"an error that is 0 beside choices":       {body: `{"error":0,` + completion[1:], want: openai.Success, wantStatus: 200},
	"words that are no UTF-8":                 {body: strings.Replace(completion, "hi", "h\xff\xe5\x8c", 1), want: openai.Success, wantStatus: 200},
	"numbers that are none":                   {body: strings.Replace(completion, `"index":0`, `"logprobs":[NaN,-Infinity,Infinity],"index":0`, 1), want: openai.Success, wantStatus: 200},
	"words that are none":                     {body: strings.Replace(completion, `"index":0`, `"logprobs":[Nan],"index":0`, 1), want: openai.Invalid},
	"a number that is none after no colon":    {body: completion[:len(completion)-1] + `,"x" NaN}`, want: openai.Invalid},
	"B2 HTML":                                 {body: `<!DOCTYPE html><title>verify</title>`, want: openai.Invalid},
	"B2 an error as a string":                 {body: `{"error":"Unexpected endpoint or method. (POST /v1/v1/chat/completions)"}`, want: openai.Invalid},
	"an error as a string about load":         {body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, want: openai.Refused, wantStatus: 503},
	"an error object about loading":           {body: `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, want: openai.Refused, wantStatus: 503},
	"an error about the window, cut":          {body: "{\"error\":{\"message\":\"\xe5\",\"code\":\"context_length_exceeded\"}}", want: openai.TooLong, wantStatus: 400},
	"an error about the window":               {body: `{"error":{"code":"context_length_exceeded"}}`, want: openai.TooLong, wantStatus: 400},
	"an error about the request":              {body: `{"error":{"type":"invalid_request_error","code":null}}`, want: openai.Rejected, wantStatus: 400},
	"an empty body":                           {want: openai.Invalid},
	"a blank body":                            {body: " \n", want: openai.Invalid},
	"text":                                    {body: `ok`, want: openai.Invalid},
	"a list":                                  {body: `[]`, want: openai.Invalid},
	"two answers":                             {body: completion + completion, want: openai.Invalid},
	"choices of nulls":                        {body: `{"choices":[null]}`, want: openai.Invalid},
	"an answer of another dialect":            {body: `{"data":[{"embedding":[1]}]}`, want: openai.Invalid},
	"white space around an answer":            {body: " \n" + completion + "\r\n", want: openai.Success, wantStatus: 200},
	"a text completion":                       {ep: openai.Completions, body: `{"choices":[{"text":"x"}]}`, want: openai.Success, wantStatus: 200},
	"embeddings":                              {ep: openai.Embeddings, body: `{"data":[{"embedding":[1]}]}`, want: openai.Success, wantStatus: 200},
	"no embeddings":                           {ep: openai.Embeddings, body: `{"data":[]}`, want: openai.Invalid},
	"a response":                              {ep: openai.Responses, body: `{"object":"response","error":null,"output":[]}`, want: openai.Success, wantStatus: 200},
	"a response that failed without a word":   {ep: openai.Responses, body: `{"status":"failed","error":null,"output":[]}`, want: openai.Invalid},
	"a response that is cut by its limit":     {ep: openai.Responses, body: `{"status":"incomplete","error":null,"output":[]}`, want: openai.Success, wantStatus: 200},
	"a response that failed":                  {ep: openai.Responses, body: `{"status":"failed","error":{"code":"server_error"},"output":[]}`, want: openai.Failed, wantStatus: 500},
	"an error before the response's status":   {ep: openai.Responses, body: `{"error":{"code":"server_error"},"status":"completed","output":[]}`, want: openai.Failed, wantStatus: 500},
	"a response without output":               {ep: openai.Responses, body: `{"object":"response"}`, want: openai.Invalid},
	"output that is words":                    {ep: openai.Responses, body: `{"object":"response","output":"x"}`, want: openai.Invalid},
	"a response cut before its output":        {ep: openai.Responses, body: `{"object":"response","output":`, want: openai.Invalid},
	"a message without content":               {ep: openai.Messages, body: `{"type":"message"}`, want: openai.Invalid},
	"content that is words":                   {ep: openai.Messages, body: `{"type":"message","content":"x"}`, want: openai.Invalid},
	"a message":                               {ep: openai.Messages, body: `{"type":"message","content":[{"type":"text","text":"x"}]}`, want: openai.Success, wantStatus: 200},
	"an error message":                        {ep: openai.Messages, body: `{"type":"error","error":{"type":"overloaded_error"}}`, want: openai.Refused, wantStatus: 529},
}

func TestJudgeBody(t *testing.T) {
	for name, tc := range bodyCases {
		t.Run(name, func(t *testing.T) {
			got := openai.JudgeBody(max(tc.ep, openai.ChatCompletions), []byte(tc.body)).Answer
			if got.Class != tc.want || got.Status != tc.wantStatus {
				t.Errorf("%v with status %d (%s), want %v with %d", got.Class, got.Status, got.Reason, tc.want, tc.wantStatus)
			}
			if tc.want != openai.Success && got.Reason == "" {
				t.Error("no reason")
			}
		})
	}
}

func TestReasonsOfBodiesThatAreNoJSON(t *testing.T) {
	for body, want := range map[string]string{
		"":                  "an empty body",
		"\r\n \n":           "an empty body",
		" <!DOCTYPE html>":  "HTML instead of an answer",
		`{"choices":[{"ind`: "no whole JSON object in the body",
		`[]`:                "no whole JSON object in the body",
		`{}`:                "no answer in the body",
	} {
		if got := openai.JudgeBody(openai.ChatCompletions, []byte(body)).Answer; got.Class != openai.Invalid || got.Reason != want {
			t.Errorf("%q: %v, %q, want %q", body, got.Class, got.Reason, want)
		}
	}
}

func TestJudgeBodyFindsUsageAndModel(t *testing.T) {
	got := openai.JudgeBody(openai.ChatCompletions, []byte(completion))
	if want := (openai.Usage{Prompt: 2, Completion: 1, Known: true}); got.Usage != want {
		t.Errorf("usage %+v, want %+v", got.Usage, want)
	}
	if text := completion[got.Model.Start:got.Model.End]; text != `"m"` {
		t.Errorf("model at %q", text)
	}
}

func TestJudgeStatus(t *testing.T) {
	type answer = openai.Answer
	quota := `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`
	for name, tc := range map[string]struct {
		status   int
		header   string // Retry-After
		body     string
		previous bool
		want     answer
	}{
		"200":                                  {status: 200, want: answer{Class: openai.Success}},
		"D3 400":                               {status: 400, want: answer{Class: openai.Rejected}},
		"D3 400 in prose":                      {status: 400, body: `{"error":{"message":"model not available"}}`, want: answer{Class: openai.Rejected}},
		"D3 400 about the window, by code":     {status: 400, body: `{"error":{"code":"context_length_exceeded"}}`, want: answer{Class: openai.TooLong}},
		"400 about the window, cut character":  {status: 400, body: "{\"error\":{\"message\":\"\xe5\",\"code\":\"context_length_exceeded\"}}", want: answer{Class: openai.TooLong}},
		"400 about the window, in an event":    {status: 400, body: "event: error\ndata: {\"error\":{\"code\":\"context_length_exceeded\"}}\n\n", want: answer{Class: openai.TooLong}},
		"400 in an event that is cut":          {status: 400, body: "data: {\"error\"", want: answer{Class: openai.Rejected}},
		"400 about the window, in a list":      {status: 400, body: `[{"error":{"code":"context_length_exceeded"}}]`, want: answer{Class: openai.TooLong}},
		"400 about the window, llama.cpp":      {status: 400, body: `{"error":{"code":400,"type":"exceed_context_size_error"}}`, want: answer{Class: openai.TooLong}},
		"400 about the window, in prose alone": {status: 400, body: `{"error":{"message":"context_length_exceeded"}}`, want: answer{Class: openai.Rejected}},
		"D3 401":                               {status: 401, want: answer{Class: openai.Misconfigured}},
		"D3 402":                               {status: 402, want: answer{Class: openai.Misconfigured}},
		"D3 403":                               {status: 403, want: answer{Class: openai.Forbidden}},
		"D3 404":                               {status: 404, want: answer{Class: openai.Unsupported}},
		"404 to a stored response":             {status: 404, previous: true, want: answer{Class: openai.Rejected}},
		"405":                                  {status: 405, want: answer{Class: openai.Unsupported}},
		"D3 408":                               {status: 408, want: answer{Class: openai.Failed}},
		"D3 409":                               {status: 409, want: answer{Class: openai.Rejected}},
		"D3 413":                               {status: 413, want: answer{Class: openai.Rejected}},
		"D3 415":                               {status: 415, want: answer{Class: openai.Rejected}},
		"418":                                  {status: 418, want: answer{Class: openai.Rejected}},
		"D3 422":                               {status: 422, want: answer{Class: openai.Rejected}},
		"425":                                  {status: 425, want: answer{Class: openai.Failed}},
		"D3 429":                               {status: 429, want: answer{Class: openai.Refused}},
		"429 with Retry-After":                 {status: 429, header: "7", want: answer{Class: openai.Refused, RetryAfter: 7 * time.Second, HasRetryAfter: true}},
		"D3 429 because the account is empty":  {status: 429, body: quota, want: answer{Class: openai.Refused, Quota: true}},
		"429 that says it in the body":         {status: 429, body: `{"error":{"retry_after_ms":1500}}`, want: answer{Class: openai.Refused, RetryAfter: 1500 * time.Millisecond, HasRetryAfter: true}},
		"D3 499":                               {status: 499, want: answer{Class: openai.Failed}},
		"D3 500":                               {status: 500, want: answer{Class: openai.Failed}},
		"500 is no refusal, whatever it says":  {status: 500, header: "7", body: `{"error":"server busy"}`, want: answer{Class: openai.Failed}},
		"D3 501":                               {status: 501, want: answer{Class: openai.Unsupported}},
		"D3 502":                               {status: 502, want: answer{Class: openai.Failed}},
		"503":                                  {status: 503, want: answer{Class: openai.Failed}},
		"503 with Retry-After":                 {status: 503, header: "3", want: answer{Class: openai.Refused, RetryAfter: 3 * time.Second, HasRetryAfter: true}},
		"503 with a Retry-After of nothing":    {status: 503, header: "soon", want: answer{Class: openai.Failed}},
		"D3 503 loading":                       {status: 503, body: `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, want: answer{Class: openai.Refused}},
		"503 busy":                             {status: 503, body: `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, want: answer{Class: openai.Refused}},
		"503 of a vLLM with too many requests": {status: 503, body: `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"ServiceUnavailableError","param":null,"code":503}}`, want: answer{Class: openai.Refused}},
		"503 of a vLLM with too many tokens":   {status: 503, body: `{"error":{"message":"The engine has reached its prefill token backlog limit. Please try again later or on a different instance.","type":"ServiceUnavailableError","param":null,"code":503}}`, want: answer{Class: openai.Refused}},
		"503 busy, as text":                    {status: 503, body: "Server Busy\n", want: answer{Class: openai.Refused}},
		"D3 504":                               {status: 504, want: answer{Class: openai.Failed}},
		"D3 520":                               {status: 520, want: answer{Class: openai.Failed}},
		"D3 524":                               {status: 524, want: answer{Class: openai.Failed}},
		"D3 529":                               {status: 529, want: answer{Class: openai.Refused}},
		"D3 600":                               {status: 600, want: answer{Class: openai.Failed}},
		"C13 301":                              {status: 301, want: answer{Class: openai.Misconfigured}},
		"C13 307":                              {status: 307, want: answer{Class: openai.Misconfigured}},
		"101":                                  {status: 101, want: answer{Class: openai.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Status = tc.status
			got := openai.JudgeStatus(&openai.Response{
				Status: tc.status, Body: []byte(tc.body), Now: time.Now(),
				Header: http.Header{"Retry-After": {tc.header}}, Stored: tc.previous,
			})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(openai.Answer{}, "Reason")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSniff(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix string
		final  bool
		want   openai.Shape
	}{
		"an object":                            {prefix: ` {"a`, want: openai.ShapeJSON},
		"a list":                               {prefix: "\n[", want: openai.ShapeJSON},
		"an object behind a byte order mark":   {prefix: "\ufeff{", want: openai.ShapeJSON},
		"a data field":                         {prefix: "data: 1", want: openai.ShapeSSE},
		"an event field":                       {prefix: "event:x", want: openai.ShapeSSE},
		"an error field":                       {prefix: "error: {", want: openai.ShapeSSE},
		"a comment":                            {prefix: ":", want: openai.ShapeSSE},
		"a field behind blank lines":           {prefix: "\n\nid: 1", want: openai.ShapeSSE},
		"a field behind a byte order mark":     {prefix: "\ufeffdata:", want: openai.ShapeSSE},
		"a field name that is cut":             {prefix: "dat", want: openai.ShapeUnknown},
		"a whole field name":                   {prefix: "retry", want: openai.ShapeUnknown},
		"half a byte order mark":               {prefix: "\xef\xbb", want: openai.ShapeUnknown},
		"nothing yet":                          {want: openai.ShapeUnknown},
		"nothing at all":                       {final: true, want: openai.ShapeOther},
		"a field name that is cut for good":    {prefix: "dat", final: true, want: openai.ShapeOther},
		"HTML":                                 {prefix: "<!DOCTYPE html>", want: openai.ShapeOther},
		"text that only begins like a field":   {prefix: "database: down", want: openai.ShapeOther},
		"a JSON string":                        {prefix: `"data: "`, want: openai.ShapeOther},
		"a long text without any known symbol": {prefix: strings.Repeat("x", 100), want: openai.ShapeOther},
	} {
		if got := openai.Sniff([]byte(tc.prefix), tc.final); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
