package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What of a caller's header reaches a backend, sent as it is; what is missing in want stays here.
func TestCallersHeadersAtTheBackend(t *testing.T) {
	t.Parallel()
	sent := []string{
		"Authorization: Bearer CALLER", "authorization: Basic CALLER", "X-API-KEY: CALLER", "Api-Key: CALLER", "X-Goog-Api-Key: CALLER", "Cookie: a=CALLER", "cookie: b=CALLER",
		"Proxy-Authorization: CALLER", "OpenAI-Organization: CALLER", "OpenAI-Project: CALLER",
		"Connection: close, X-Hop", "Connection:x-hop-too", "X-Hop: CALLER", "X-Hop-Too: CALLER", "Keep-Alive: timeout=5", "TE: trailers", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
		"Trailer: X-Late", "Accept-Encoding: br", "User-Agent: CALLER", "X-Prefer-Backend: a", "X-Request-Timeout-Ms: 60000", "X-Spillway-Backend: CALLER", "X-Forwarded-For: CALLER",
		"Accept: text/event-stream", "OpenAI-Beta: assistants=v2", "Anthropic-Version: 2023-06-01", "Anthropic-Beta: one", "anthropic-beta: two", "Idempotency-Key: i", "X-Custom: kept", "X-Empty:",
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate: a=1", "X-Request-Id: mine",
	}
	want := http.Header{
		"Accept": {"text/event-stream"}, "Openai-Beta": {"assistants=v2"}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"one", "two"}, "Idempotency-Key": {"i"},
		"X-Custom": {"kept"}, "X-Empty": {""}, "Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"a=1"}, "X-Request-Id": {"mine"},
		"Content-Type": {"application/json"}, "User-Agent": {"spillway/dev"},
	}
	for _, size := range []int{0, 100 << 10} { // each goes through a client of its own
		u := well(t, "hi")
		r := routed(t, nil, u)
		body := strings.Replace(r.unary(), "[]", `["`+strings.Repeat("x", size)+`"]`, 1)
		if got := post(t, chat, body, sent...); got.status != 200 || got.header.Get("X-Request-Id") != "mine" {
			t.Fatalf("%d %q", got.status, got.body)
		}
		seen := u.requests()[0].header
		seen.Del("Content-Length")
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("with %d bytes, at the backend (-want +got):\n%s", size, diff)
		}
	}
}

// C9: each backend gets its own credential and no other's, and the caller's reaches none.
func TestCredentialsStayApart(t *testing.T) {
	t.Parallel()
	a, b, d := says(t, status(500, "", `{}`)), says(t, status(500, "", `{}`)), well(t, "hi")
	absent := well(t, "never")
	r := routed(t, nil, b)
	secret := func(name, value string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s-%s, namespace: lab}\nstringData: {key: %q}\n", r.name, name, value)
	}
	auth := func(name, more string) string {
		return fmt.Sprintf("auth: {secretRef: {name: %s-%s, key: key}%s}", r.name, name, more)
	}
	r.writeWith(secret("a", "KA\n")+secret("d", "KD"), nil, a.with(auth("a", "")), b.plain(), absent.with(auth("none", "")),
		d.with(auth("d", ", scheme: Header, header: x-own-key")))
	reloaded(t)
	got := post(t, chat+"?key=CALLER&api_key=CALLER&api-version=1", r.unary(), "Authorization: Bearer CALLER", "X-Api-Key: CALLER", "Api-Key: CALLER", "X-Own-Key: CALLER",
		"Cookie: CALLER", "OpenAI-Organization: CALLER")
	if got.status != 200 || got.header.Get("X-Spillway-Backend") != "d" || got.header.Get("X-Spillway-Attempts") != "3" || absent.count() != 0 {
		t.Fatalf("%d %v %q", got.status, got.header, got.body)
	}
	for u, want := range map[*upstream][2]string{a: {"Bearer KA", ""}, b: {"", ""}, d: {"", "KD"}} {
		seen := u.requests()[len(u.requests())-1]
		if diff := cmp.Diff(want, [2]string{seen.header.Get("Authorization"), seen.header.Get("X-Own-Key")}); diff != "" {
			t.Errorf("credentials (-want +got):\n%s", diff)
		}
		if strings.Contains(fmt.Sprint(seen), "CALLER") || seen.target != chat+"?api-version=1" {
			t.Errorf("the caller's credential in %+v", seen)
		}
	}
}

// What of a backend's header reaches a caller, in each form of an answer.
func TestBackendsHeadersAtTheCaller(t *testing.T) {
	t.Parallel()
	const header = "X-Custom: kept\r\nX-Custom: twice\r\nOpenai-Processing-Ms: 5\r\n" +
		"Connection: keep-alive, X-Hop\r\nX-Hop: BACKEND\r\nKeep-Alive: BACKEND\r\nTrailer: X-Late\r\nUpgrade: BACKEND\r\nProxy-Authenticate: BACKEND\r\n" +
		"Set-Cookie: BACKEND\r\nSet-Cookie2: BACKEND\r\nServer: BACKEND\r\nVia: BACKEND\r\nAlt-Svc: BACKEND\r\nLocation: BACKEND\r\nContent-Location: BACKEND\r\nRefresh: BACKEND\r\nWww-Authenticate: BACKEND\r\n" +
		"Retry-After: 77\r\nX-Should-Retry: true\r\nX-Ratelimit-Limit-Requests: 77\r\nX-Spillway-Backend: BACKEND\r\nX-Spillway-Anything: BACKEND\r\nOpenai-Organization: BACKEND\r\nX-Request-Id: BACKEND\r\n" +
		"Etag: BACKEND\r\nContent-Digest: BACKEND\r\nDigest: BACKEND\r\nContent-Md5: BACKEND\r\nAccept-Ranges: BACKEND\r\nContent-Range: BACKEND\r\nContent-Language: BACKEND: en\r\n"
	u := newUpstream(t, func(_ int, w *wire) {
		if strings.Contains(w.got.body, `"stream":true`) {
			w.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=BACKEND\r\n"+header+"Transfer-Encoding: chunked\r\n\r\n", chunked(c("a")+fin+done), "0\r\nX-Late: BACKEND\r\n\r\n")
			return
		}
		w.send("HTTP/1.1 200 OK\r\nContent-Type: BACKEND\r\n"+header+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(whole)), whole)
	})
	r := routed(t, nil, u)
	common := http.Header{"X-Custom": {"kept", "twice"}, "Openai-Processing-Ms": {"5"}, "X-Request-Id": {"mine"},
		"X-Spillway-Route": {"lab/" + r.name}, "X-Spillway-Backend": {"a"}, "X-Spillway-Attempts": {"1"}, "X-Spillway-Reason": {"first"}}
	forms := map[string]struct {
		got  response
		more http.Header
	}{
		"a body":   {r.ask("X-Request-Id: mine"), http.Header{"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(whole))}}},
		"a stream": {r.stream("X-Request-Id: mine"), http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}, "X-Accel-Buffering": {"no"}}},
	}
	for name, form := range forms {
		want := common.Clone()
		for k, v := range form.more {
			want[k] = v
		}
		form.got.header.Del("Date")
		form.got.header.Del("Content-Language")
		if diff := cmp.Diff(want, form.got.header); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestQueriesAtTheBackend(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"":                        "",
		"?":                       "",
		"?api-version=1&beta":     "?api-version=1&beta",
		"?a=%2F+%20&a=2":          "?a=%2F+%20&a=2",
		"?KEY=CALLER&a=1&to%6ben": "?a=1",
		"?a=1#key=CALLER":         "",
		"?a=1;key=CALLER":         "",
		"?%zz&b=%":                "",
		"?x=http://h/%0d%0aX:+y":  "?x=http://h/%0d%0aX:+y",
	} {
		u := well(t, "hi")
		r := routed(t, nil, u)
		if got := post(t, chat+asked, r.unary()); got.status != 200 {
			t.Errorf("%q: %d %q", asked, got.status, got.body)
			continue
		}
		if seen := u.requests()[0].target; seen != chat+want {
			t.Errorf("%q came as %q, want %q", asked, seen, chat+want)
		}
	}
}
