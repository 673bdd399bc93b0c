package conformance

import (
	"strings"
	"testing"
)

// What a 200 may hold that is no answer, or not one of the dialect that was asked in. The second backend answers well.
func TestAnswersThatAreNone(t *testing.T) {
	const completions, responses = "/v1/completions", "/v1/responses"
	event := func(data string) string { return "data: " + data + "\n\n" }
	gaveUp := func(code string) string {
		return `{"index":0,"delta":{"content":""},"finish_reason":"error","error":{"code":` + code + `,"message":"their words"}}`
	}
	unary := func(choice string) string {
		return `{"choices":[` + strings.Replace(choice, "delta", "message", 1) + `]}`
	}
	failed := `{"type":"response.failed","response":{"id":"r","instructions":"SECRET","error":{"code":"invalid_image","message":"their words"}}}`
	cases := map[string]struct {
		path, sent string // no path: chat completions
		streamed   bool
		want       string // in what the caller gets; empty: the second backend's answer
	}{
		"an error in a choice":                        {sent: status(200, "", unary(gaveUp("502")))},
		"an error in a choice, a stream was due":      {sent: status(200, "", unary(gaveUp("502"))), streamed: true},
		"an error in the first choice of a stream":    {sent: sseHead + role + chunk(gaveUp("429")) + done, streamed: true},
		"an error in a choice behind a token":         {sent: sseHead + c("a") + chunk(gaveUp("502")) + done, streamed: true, want: `"code":"stream_failed"`},
		"the same, assembled":                         {sent: sseHead + c("a") + chunk(gaveUp("502")) + done},
		"an error in a choice that is the caller's":   {sent: status(200, "", unary(gaveUp("400"))), want: `{"error":{"code":400,"message":"their words","upstream_status":400}}`},
		"an answer that was aborted":                  {sent: sseHead + role + chunk(`{"index":0,"delta":{},"finish_reason":"abort"}`) + done, streamed: true},
		"an answer that was aborted behind a token":   {sent: sseHead + c("a") + chunk(`{"index":0,"delta":{},"finish_reason":"abort"}`) + done, streamed: true, want: `"code":"stream_failed"`},
		"text in a chat":                              {sent: status(200, "", `{"choices":[{"index":0,"text":"x","finish_reason":"stop"}]}`)},
		"a stream of text in a chat":                  {sent: sseHead + chunk(`{"index":0,"text":"x"}`) + fin + done, streamed: true},
		"a stream of text in a chat, assembled":       {sent: sseHead + chunk(`{"index":0,"text":"x"}`) + fin + done},
		"a stream of both in a chat, assembled":       {sent: sseHead + chunk(`{"index":0,"text":"x","delta":{"content":"both"}}`) + fin + done, want: `"content":"both"`},
		"a stream of another dialect, assembled":      {sent: sseHead + event(`{"type":"response.output_text.delta","delta":"x"}`) + event(`{"type":"response.completed"}`)},
		"a chat where text was due, assembled":        {path: completions, sent: sseHead + c("x") + fin + done, want: `"class":"invalid_response"`},
		"a response that failed by the caller's word": {path: responses, sent: sseHead + event(failed), streamed: true, want: `{"error":{"code":"invalid_image","message":"their words","upstream_status":400}}`},
		"a response that failed without a word":       {path: responses, sent: status(200, "", `{"status":"failed","error":null,"output":[]}`), want: `"class":"invalid_response"`},
		"numbers that are none, a stream was due":     {sent: status(200, "", strings.Replace(whole, `"index":0`, `"index":0,"logprobs":[NaN,-Infinity]`, 1)), streamed: true, want: `"logprobs":[null,null]`},
		"numbers that are none, assembled":            {sent: sseHead + chunk(`{"index":0,"delta":{"content":"x"},"logprobs":{"content":[NaN]}}`) + fin + done, want: `"logprobs":{"content":[null]}`},
		"images, assembled":                           {sent: sseHead + chunk(`{"index":0,"delta":{"images":[{"url":"u"}]}}`) + fin + done, want: `"images":[{"url":"u"}]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, nil, says(t, tc.sent), well(t, "second"))
			path, body, want := tc.path, r.unary(), tc.want
			if path == "" {
				path = chat
			}
			if tc.streamed {
				body = r.streamed()
			}
			if want == "" {
				want = `"content":"second"`
			}
			got := post(t, path, body)
			if !strings.Contains(events(got.body), want) || strings.Contains(got.body, "SECRET") {
				t.Errorf("%d %q, want %s", got.status, got.body, want)
			}
		})
	}
}

// What of a rejection reaches the caller, in every dialect, with a status of its own and behind one that is out.
func TestWordsOfARejection(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"OpenAI":     {`{"error":{"message":"bad","type":"t","param":"p","code":"c"}}`, `"error":{"message":"bad","type":"t","param":"p","code":"c","upstream_status":422}`},
		"Anthropic":  {`{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}`, `{"type":"error","error":{"type":"invalid_request_error","message":"bad","upstream_status":422}}`},
		"FastAPI":    {`{"detail":[{"loc":["body","model"],"msg":"bad"}]}`, `"error":{"message":"body.model: bad","type":"invalid_request_error","code":"upstream_request_rejected","param":null,"upstream_status":422}`},
		"Mistral":    {`{"object":"error","message":{"detail":[{"loc":["body"],"msg":"bad"}]},"code":null}`, `"message":"body: bad"`},
		"vLLM":       {`{"object":"error","message":"bad","type":"BadRequestError","param":null,"code":400}`, `"message":"bad"`},
		"Ollama":     {`{"error":"bad"}`, `"message":"bad"`},
		"TGI":        {`{"error":"bad","error_type":"validation"}`, `"message":"bad"`},
		"Cloudflare": {`{"result":null,"success":false,"errors":[{"code":5007,"message":"bad"}],"messages":[]}`, `"message":"bad"`},
		"Nest":       {`{"statusCode":422,"error":"Unprocessable","message":["bad"]}`, `"message":"Unprocessable: bad"`},
		"an event":   {"event: error\ndata: {\"error\":{\"message\":\"bad\"}}\n\n", `"error":{"message":"bad","upstream_status":422}`},
		"a page":     {`<html>bad</html>`, `"message":"The backend rejected the request with status 422."`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(_ int, w *wire) {
				if strings.Contains(w.got.body, "LATE") {
					w.pause(grace) // past the commit
				}
				w.send(status(422, "Retry-After: 7\r\nX-Ratelimit-Remaining-Requests: 7\r\n", tc.body))
			})
			r := routed(t, settings{"heartbeat": "{interval: 0s, commitAfter: 1ms}"}, u)
			for _, path := range []string{chat, "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"} {
				got := post(t, path, r.unary())
				if got.status != 422 || !strings.Contains(got.body, tc.want) || got.header.Get("X-Should-Retry") != "false" || got.header.Get("Retry-After") != "" || got.header.Get("X-Ratelimit-Remaining-Requests") != "" {
					t.Errorf("%s: %d %v %s", path, got.status, got.header, got.body)
				}
				if path == "/v1/embeddings" {
					continue
				}
				got = post(t, path, strings.Replace(r.streamed(), "[]", `["LATE"]`, 1))
				if text := events(got.body); got.status != 200 || !strings.Contains(text, strings.TrimPrefix(tc.want, "{")) || strings.Contains(text, "[DONE]") || strings.HasPrefix(text, "event: error\n") != (path == "/v1/messages") {
					t.Errorf("%s, late: %d %q", path, got.status, got.body)
				}
			}
		})
	}
}
