package openai_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/openai"
)

// mustBeEnvelope checks that a body is one JSON object with an error object that tells the backend's status.
func mustBeEnvelope(t *testing.T, body []byte, status int) map[string]any {
	t.Helper()
	var e struct{ Error map[string]any }
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // a backend's own error may hold numbers that no type does
	if err := d.Decode(&e); err != nil || e.Error == nil || !json.Valid(body) {
		t.Fatalf("no envelope: %v: %s", err, body)
	}
	if status != 0 && e.Error["upstream_status"] != json.Number(strconv.Itoa(status)) {
		t.Errorf("upstream_status is %v in %s", e.Error["upstream_status"], body)
	}
	return e.Error
}

func TestErrorAppendJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		in         openai.Error
		want       string
		wantStatus int
	}{
		"the plain envelope": {
			openai.Error{Code: openai.CodeInvalidRequest, Message: `say "please"`, Param: "model"},
			`{"error":{"message":"say \"please\"","type":"invalid_request_error","code":"invalid_request","param":"model"}}`, 400,
		},
		"no parameter is null": {
			openai.Error{Code: openai.CodeOverloaded, Message: "m"},
			`{"error":{"message":"m","type":"overloaded_error","code":"overloaded","param":null}}`, 503,
		},
		"everything": {
			openai.Error{
				Code: openai.CodeBackendSaturated, Status: 429, Message: "m", RetryAfter: 1500*time.Millisecond + 1, UpstreamStatus: 429,
				Attempts: []openai.AttemptNote{{Backend: "tower", Class: "Refused"}, {Backend: "hosted", Class: "Failed"}},
			},
			`{"error":{"message":"m","type":"overloaded_error","code":"backend_saturated","param":null,"upstream_status":429,` +
				`"retry_after_ms":1501,"attempts":[{"backend":"tower","class":"Refused"},{"backend":"hosted","class":"Failed"}]}}`, 429,
		},
		"a code outside the set tells nothing": {
			openai.Error{Code: "secret_leak", Status: 200, Message: "secret"},
			`{"error":{"message":"Something went wrong inside the proxy.","type":"server_error","code":"internal_error","param":null}}`, 500,
		},
		"a code without a status of its own": {
			openai.Error{Code: openai.CodeStreamIncomplete, Message: "m"},
			`{"error":{"message":"m","type":"upstream_error","code":"stream_incomplete","param":null}}`, 502,
		},
		"an empty list of attempts": {
			openai.Error{Code: openai.CodeUpstreamError, Attempts: []openai.AttemptNote{}},
			`{"error":{"message":"","type":"upstream_error","code":"upstream_error","param":null,"attempts":[]}}`, 502,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(tc.in.AppendJSON(nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := string(openai.AppendErrorEvent(nil, openai.ChatCompletions, tc.in.AppendJSON(nil))); got != "data: "+tc.want+"\n\n" {
				t.Errorf("event %q", got)
			}
			if got := tc.in.HTTPStatus(); got != tc.wantStatus {
				t.Errorf("status %d, want %d", got, tc.wantStatus)
			}
		})
	}
}

func TestWriteError(t *testing.T) {
	w := httptest.NewRecorder()
	status := openai.WriteError(w, &openai.Error{Code: openai.CodeRateLimited, Message: "m", RetryAfter: 1100 * time.Millisecond})
	if status != 429 || w.Code != 429 {
		t.Errorf("status %d and %d", status, w.Code)
	}
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After %q, want whole seconds, rounded up", got)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	mustBeEnvelope(t, w.Body.Bytes(), 0)
	for code, scheme := range map[openai.Code]string{openai.CodeUnauthenticated: "Bearer", openai.CodeForbidden: ""} {
		w := httptest.NewRecorder()
		openai.WriteError(w, &openai.Error{Code: code, Message: "m"})
		if got := w.Header(); got.Get("WWW-Authenticate") != scheme || got["Retry-After"] != nil {
			t.Errorf("%s: %v", code, got)
		}
	}
}

// Whole milliseconds stay what they are.
func TestRetryAfterInTheBodyIsExact(t *testing.T) {
	e := openai.Error{Code: openai.CodeOverloaded, RetryAfter: 1500 * time.Millisecond}
	if got := string(e.AppendJSON(nil)); !strings.Contains(got, `"retry_after_ms":1500}`) {
		t.Error(got)
	}
}

func TestRetryAfterSecondsIsAtLeastOne(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2"} {
		if got := openai.RetryAfterSeconds(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestCodesAreTheClosedSetOfTheWireContract(t *testing.T) {
	want := map[openai.Code]int{
		"invalid_request": 400, "request_too_large": 413, "unsupported_encoding": 415, "unauthenticated": 401, "forbidden": 403,
		"model_not_found": 404, "model_unavailable": 503, "rate_limited": 429, "rate_limit_error": 429, "overloaded": 503,
		"request_deadline_exceeded": 504, "backend_saturated": 503,
		"upstream_request_rejected": 0, "upstream_misconfigured": 502, "upstream_transport_failed": 0, "upstream_5xx": 0,
		"upstream_error": 502, "response_validation_failed": 502,
		"stream_incomplete": 0, "stream_failed": 0, "stream_idle": 0,
		"client_closed_request": 499, "internal_error": 500,
	}
	got := map[openai.Code]int{}
	for _, c := range openai.Codes() {
		got[c] = c.Status()
		if !c.Known() || c.Type() == "" {
			t.Errorf("%s: known %v, type %q", c, c.Known(), c.Type())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(openai.Codes()) != len(want) {
		t.Errorf("%d codes (-want +got):\n%s", len(openai.Codes()), diff)
	}
	if openai.Code("x").Known() || openai.Code("x").Status() != 500 {
		t.Error("an unknown code passes for known")
	}
}

func TestAppendRejection(t *testing.T) {
	wrapped := func(message string) string {
		return `{"error":{"message":"` + message + `","type":"invalid_request_error","code":"upstream_request_rejected","param":null,"upstream_status":422}}`
	}
	silent := wrapped("The backend rejected the request with status 422.")
	for name, tc := range map[string]struct{ body, want string }{
		"inside its error object, every other byte unchanged": {
			" { \"error\" : {\"message\":\"\\u003c\", \"seed\":9007199254740993} , \"x\":1}\n",
			" { \"error\" : {\"message\":\"\\u003c\", \"seed\":9007199254740993,\"upstream_status\":422} , \"x\":1}\n",
		},
		"an empty error object":                {`{"error":{ }}`, `{"error":{ "upstream_status":422}}`},
		"another proxy's status is replaced":   {`{"error":{"upstream_status":400,"code":"x"}}`, `{"error":{"upstream_status":422,"code":"x"}}`},
		"an error as a string is wrapped":      {`{"error":"bad <x>"}`, wrapped("bad <x>")},
		"a message at the top is wrapped":      {`{"object":"error","message":"bad","code":422}`, wrapped("bad")},
		"a detail is wrapped":                  {`{"detail":"bad"}`, wrapped("bad")},
		"a list of details without words":      {`{"detail":[{"loc":["body"]}]}`, silent},
		"a list of details is wrapped":         {`{"detail":[{"loc":["body","messages",0],"msg":"Field required","input":{}},{"msg":"No"}]}`, wrapped("body.messages.0: Field required; No")},
		"details of odd types":                 {`{"detail":[1,null,{"loc":5,"msg":7},{"loc":["a"]}]}`, silent},
		"a detail with an error in it":         {`{"detail":{"error":{"message":"bad","code":"c"}}}`, wrapped("bad")},
		"a list of errors":                     {`{"success":false,"errors":[{"code":5007,"message":"no such model"},"and more"],"messages":[]}`, wrapped("no such model; and more")},
		"an error that is a list":              {`{"error":[{"message":"bad"}]}`, wrapped("bad")},
		"an error and a message":               {`{"statusCode":422,"error":"Unprocessable","message":["a is missing","b is odd"]}`, wrapped("Unprocessable: a is missing; b is odd")},
		"a message with details in it":         {`{"object":"error","message":{"detail":[{"loc":["body","model"],"msg":"Field required"}]},"code":null}`, wrapped("body.model: Field required")},
		"words that lie too deep":              {`{"error":[[[[["bad"]]]]]}`, silent},
		"an error in a choice":                 {`{"id":"x","choices":[{"index":0},{"message":{"content":"y"},"error":{"code":400,"message":"bad"}}]}`, `{"error":{"code":400,"message":"bad","upstream_status":422}}`},
		"an error in a response":               {`{"type":"response.failed","response":{"instructions":"x","error":{"code":"invalid_prompt","message":"bad"}}}`, `{"error":{"code":"invalid_prompt","message":"bad","upstream_status":422}}`},
		"an error in an event":                 {"event: error\ndata: {\"error\":{\"message\":\"bad\"}}\n\n", `{"error":{"message":"bad","upstream_status":422}}`},
		"an error in an event without its end": {`data: {"error":{"message":"bad"}}`, `{"error":{"message":"bad","upstream_status":422}}`},
		"text that begins like an event":       {"error: no such thing", silent},
		"an error within a list":               {`[{"error":{"code":"x"}}]`, `{"error":{"code":"x","upstream_status":422}}`},
		"an error within a list, not alone":    {`[{"error":{"code":"x"}},{"error":{"code":"y"}}]`, `{"error":{"code":"x","upstream_status":422}}`},
		"half a character":                     {"{\"error\":{\"message\":\"\xe5\"}}", "{\"error\":{\"message\":\"\ufffd\",\"upstream_status\":422}}"},
		"a list of nothing":                    {`[]`, silent},
		"a list that is cut":                   {`[{"error":{"code":"x"}}`, silent},
		"HTML stays behind":                    {`<html>http://internal.host/</html>`, silent},
		"half a body stays behind":             {`{"error":{"message":"x"`, silent},
		"an empty body":                        {``, silent},
		"an error that is null":                {`{"error":null}`, silent},
		"a long message is cut at characters":  {`{"error":"` + strings.Repeat("a", 2047) + `北京"}`, wrapped(strings.Repeat("a", 2047) + "...")},
	} {
		t.Run(name, func(t *testing.T) {
			got := openai.AppendRejection(nil, []byte(tc.body), 422)
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			mustBeEnvelope(t, got, 422)
		})
	}
}

func TestModels(t *testing.T) {
	want := `{"object":"list","data":[{"id":"a/b","object":"model","created":0,"owned_by":"spillway"},` +
		`{"id":"c\"d","object":"model","created":0,"owned_by":"spillway"}]}`
	if diff := cmp.Diff(want, string(openai.AppendModelList(nil, []string{"a/b", `c"d`}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := string(openai.AppendModelList(nil, nil)); got != `{"object":"list","data":[]}` {
		t.Errorf("no models: %s", got)
	}
}

func TestEndpointOf(t *testing.T) {
	for path, want := range map[string]openai.Endpoint{
		"/v1/chat/completions": openai.ChatCompletions, "/v1/completions": openai.Completions,
		"/v1/embeddings": openai.Embeddings, "/v1/responses": openai.Responses, "/v1/messages": openai.Messages,
		"/v1/chat/completions/": 0, "/v1//chat/completions": 0, "/chat/completions": 0, "/v1": 0, "": 0,
	} {
		got, ok := openai.EndpointOf(path)
		if got != want || ok != (want != 0) {
			t.Errorf("%q: %v %v, want %v", path, got, ok, want)
		}
	}
	if got := openai.Endpoint(0).String() + openai.Endpoint(99).String(); got != "unknownunknown" {
		t.Errorf("endpoints that are none: %q", got)
	}
}

func TestErrorEventOfTheMessagesDialect(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"it is named, and says its type": {
			in:   `{"error":{"message":"cut"}}`,
			want: "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"cut\"}}\n\n",
		},
		"a backend's own type stays": {
			in:   `{"type":"error","error":{"type":"overloaded_error"}}`,
			want: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
		},
		"a pretty-printed one is of one line": {
			in:   "{\n  \"error\": {\n    \"message\": \"a  b\",\"n\":1.0\n  }\n}\n",
			want: "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"a  b\",\"n\":1.0}}\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, string(openai.AppendErrorEvent(nil, openai.Messages, []byte(tc.in)))); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
		})
	}
}
