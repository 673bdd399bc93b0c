package conformance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What HTTP itself allows a caller to do. wantBody is what the backend gets; empty: it is not asked.
func TestCallersSpeakHTTPInManyWays(t *testing.T) {
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(s))
		_ = z.Close()
		return b.String()
	}
	post := func(target, proto, lines, body string) string {
		return "POST " + target + " " + proto + "\r\nHost: h\r\n" + lines + "\r\n" + body
	}
	cases := map[string]struct {
		raw        func(body string) string
		wantStatus int
		asked      bool
	}{
		"a length": {func(b string) string { return request(chat, b) }, 200, true},
		"chunks, with a trailer": {func(b string) string {
			return post(chat, "HTTP/1.1", "Transfer-Encoding: chunked\r\nTrailer: X-Secret\r\n", chunked(b[:5])+chunked(b[5:])+"0\r\nX-Secret: LATE\r\n\r\n")
		}, 200, true},
		"chunks with extensions": {func(b string) string {
			return post(chat, "HTTP/1.1", "Transfer-Encoding: chunked\r\n", fmt.Sprintf("%x;a=b\r\n%s\r\n0\r\n\r\n", len(b), b))
		}, 200, true},
		"HTTP/1.0": {func(b string) string { return post(chat, "HTTP/1.0", fmt.Sprintf("Content-Length: %d\r\n", len(b)), b) }, 200, true},
		"an absolute target": {func(b string) string {
			return post("http://elsewhere"+chat, "HTTP/1.1", fmt.Sprintf("Content-Length: %d\r\n", len(b)), b)
		}, 200, true},
		"an escaped letter":             {func(b string) string { return request("/v1/%63hat/completions", b) }, 200, true},
		"Expect: 100-continue":          {func(b string) string { return request(chat, b, "Expect: 100-continue") }, 200, true},
		"gzip":                          {func(b string) string { return request(chat, zipped(b), "Content-Encoding: gzip") }, 200, true},
		"gzip in capitals, with blanks": {func(b string) string { return request(chat, zipped(b), "Content-Encoding:  GZIP ") }, 200, true},
		"identity":                      {func(b string) string { return request(chat, b, "Content-Encoding: identity") }, 200, true},
		"gzip twice": {func(b string) string {
			return request(chat, zipped(b), "Content-Encoding: gzip", "Content-Encoding: gzip")
		}, 415, false},
		"gzip with something behind it": {func(b string) string { return request(chat, zipped(b)+"x", "Content-Encoding: gzip") }, 400, false},
		"gzip that is cut":              {func(b string) string { return request(chat, zipped(b)[:20], "Content-Encoding: gzip") }, 400, false},
		"a bomb": {func(string) string {
			return request(chat, zipped(strings.Repeat(" ", 11<<20)), "Content-Encoding: gzip")
		}, 413, false},
		"no length and no chunks":        {func(b string) string { return post(chat, "HTTP/1.1", "", b) }, 400, false},
		"an unknown expectation":         {func(b string) string { return request(chat, b, "Expect: 200-ok") }, 417, false},
		"a method of another time":       {func(b string) string { return strings.Replace(request(chat, b), "POST", "BREW", 1) }, 405, false},
		"a method in small letters":      {func(b string) string { return strings.Replace(request(chat, b), "POST", "post", 1) }, 405, false},
		"OPTIONS":                        {func(b string) string { return strings.Replace(request(chat, b), "POST", "OPTIONS", 1) }, 405, false},
		"PUT":                            {func(b string) string { return strings.Replace(request(chat, b), "POST", "PUT", 1) }, 405, false},
		"CONNECT":                        {func(string) string { return "CONNECT backend:443 HTTP/1.1\r\nHost: backend:443\r\n\r\n" }, 404, false},
		"a semicolon in the path":        {func(b string) string { return request(chat+";x", b) }, 404, false},
		"a backslash in the path":        {func(b string) string { return request("/v1\\chat/completions", b) }, 404, false},
		"an escaped slash":               {func(b string) string { return request("/v1%2Fchat/completions", b) }, 200, true},
		"a path that climbs":             {func(b string) string { return request("/v1/models/../chat/completions", b) }, 405, false},
		"a header that is far too large": {func(b string) string { return request(chat, b, "X-Large: "+strings.Repeat("x", 100<<10)) }, 431, false},
		"many headers": {func(b string) string {
			return request(chat, b, strings.TrimSuffix(strings.Repeat("X-Many: 1\r\n", 200), "\r\n"))
		}, 200, true},
		"far too many headers": {func(b string) string {
			return request(chat, b, strings.TrimSuffix(strings.Repeat("X-Many: 1\r\n", 2000), "\r\n"))
		}, 431, false},
		"length and chunks together": {func(b string) string {
			return post(chat, "HTTP/1.1", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", chunked(b)+chunked(""))
		}, 200, true},
		"two lengths": {func(b string) string { return post(chat, "HTTP/1.1", "Content-Length: 3\r\nContent-Length: 4\r\n", b) }, 400, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := well(t, "hi")
			r := routed(t, nil, u)
			got := dial(t).send(tc.raw(r.unary())).response()
			if got.status != tc.wantStatus {
				t.Errorf("status %d, want %d: %q", got.status, tc.wantStatus, got.body)
			}
			var want []received
			if tc.asked {
				body := strings.Replace(r.unary(), r.model, r.physical("a"), 1)
				want = []received{{method: "POST", target: "/v1/chat/completions", length: int64(len(body)), body: body}}
			}
			seen := u.requests()
			for i := range seen {
				if len(seen[i].trailer) > 0 || strings.Contains(fmt.Sprint(seen[i]), "LATE") || strings.Contains(fmt.Sprint(seen[i].header), "CALLER") {
					t.Errorf("the backend saw too much: %+v", seen[i])
				}
				seen[i].header, seen[i].trailer = nil, nil
			}
			if diff := cmp.Diff(want, seen, cmp.AllowUnexported(received{})); diff != "" {
				t.Errorf("at the backend (-want +got):\n%s", diff)
			}
		})
	}
}

// One connection, several requests: answers in order, nothing of one in the other.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	a, b := routed(t, nil, well(t, "one")), routed(t, nil, well(t, "two"))
	cl := dial(t).send(request(chat, a.streamed()) + request(chat, `{}`) + request(chat, b.unary()) +
		"GET /v1/models/" + a.model + " HTTP/1.1\r\nHost: h\r\n\r\n" + "HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n")
	if got := cl.response(); events(got.body) != role+c("one")+fin+done || got.err != nil {
		t.Errorf("first: %v %q", got.err, got.body)
	}
	if got := cl.response(); got.status != 400 {
		t.Errorf("second: %d %q", got.status, got.body)
	}
	if got := cl.response(); got.status != 200 || !strings.Contains(got.body, "two") {
		t.Errorf("third: %d %q", got.status, got.body)
	}
	if got := cl.response(); got.status != 200 || !strings.Contains(got.body, a.model) {
		t.Errorf("fourth: %d %q", got.status, got.body)
	}
	resp, err := http.ReadResponse(cl.in, &http.Request{Method: http.MethodHead})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(resp); got.status != 200 || got.body != "" || got.header.Get("Content-Length") == "" {
		t.Errorf("fifth: %+v", got)
	}
}

// h2 calls over HTTP/2 without TLS.
func h2(t *testing.T) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestCallersOverHTTP2(t *testing.T) {
	t.Parallel()
	client := h2(t)
	call := func(t *testing.T, body string, unknownLength bool) response {
		t.Helper()
		var from io.Reader = strings.NewReader(body)
		if unknownLength {
			from = io.MultiReader(from)
		}
		resp, err := client.Post("http://"+proxy.data+chat, "application/json", from)
		if err != nil {
			t.Fatal(err)
		}
		if resp.ProtoMajor != 2 {
			t.Fatal("not over HTTP/2")
		}
		return read(resp)
	}
	t.Run("C1 one right length, whatever the caller's", func(t *testing.T) {
		for _, unknown := range []bool{false, true} {
			a, b := says(t, status(500, "", `{}`)), well(t, "hi")
			r := newRoute(t, nil, a.with("headers: [{name: X-A, value: '1'}]"), b.plain())
			if got := call(t, r.unary(), unknown); got.status != 200 || !strings.Contains(got.body, `"hi"`) {
				t.Errorf("%d %q", got.status, got.body)
			}
			for _, u := range []*upstream{a, b} {
				if seen := u.requests()[0]; seen.length != int64(len(seen.body)) || seen.length == 0 {
					t.Errorf("length %d, %d bytes", seen.length, len(seen.body))
				}
			}
		}
	})
	t.Run("a stream, heartbeats and a failover in it, many at once", func(t *testing.T) {
		a := newUpstream(t, func(_ int, w *wire) {
			w.send(sseHead, role)
			w.pause(4 * grace)
		})
		r := routed(t, settings{"heartbeat": "{interval: 1s, commitAfter: 0s}"}, a, well(t, "two"))
		got := make(chan response)
		for range 8 {
			go func() { got <- call(t, r.streamed(), false) }()
		}
		for range 8 {
			if g := <-got; events(g.body) != role+c("two")+fin+done || g.err != nil {
				t.Errorf("%v %q", g.err, g.body)
			}
		}
	})
	t.Run("a stream that breaks ends with its error", func(t *testing.T) {
		r := routed(t, nil, says(t, sseHead, c("a")))
		if got := call(t, r.streamed(), false); got.said(t).Code != "stream_incomplete" || got.err != nil {
			t.Errorf("%v %q", got.err, got.body)
		}
	})
	t.Run("a caller that leaves is noticed", func(t *testing.T) {
		left := make(chan struct{})
		u := newUpstream(t, func(_ int, w *wire) {
			w.send(sseHead, c("a"))
			w.silence()
			close(left)
		})
		r := routed(t, nil, u)
		resp, err := client.Post("http://"+proxy.data+chat, "application/json", strings.NewReader(r.streamed()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(resp.Body, make([]byte, 10))
		resp.Body.Close()
		<-left
	})
}
