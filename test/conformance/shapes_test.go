package conformance

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func choice(index int, content, finish string) string {
	if finish != "null" {
		return fmt.Sprintf(`{"index":%d,"delta":{},"finish_reason":%q}`, index, finish)
	}
	return fmt.Sprintf(`{"index":%d,"delta":{"content":%q},"finish_reason":null}`, index, content)
}

// What a stream may begin with, apart from what the standard has.
func TestStreamsBeginInManyWays(t *testing.T) {
	second := role + c("second") + fin + done
	cases := map[string]struct{ sent, want string }{
		"with a field that nobody knows":           {sseHead + "x-meta: 1\n\n" + c("a") + fin + done, c("a") + fin + done},
		"with such a field in its first event":     {sseHead + "x-meta: 1\n" + c("a") + fin + done, "x-meta: 1\n" + c("a") + fin + done},
		"with a page that calls itself a stream":   {sseHead + "<html>data: no</html>\n\n", second},
		"with a text that calls itself a stream":   {sseHead + "upstream: not there", second},
		"with an error in a field of its own":      {sseHead + `error: {"code":503,"message":"Loading model"}` + "\n\n", second},
		"with an error that is the caller's":       {sseHead + role + `error: {"code":400,"message":"no such tool"}` + "\n\n", `"upstream_status":400`},
		"with a token, and end with such an error": {sseHead + c("a") + `error: {"code":500,"message":"out of memory"}` + "\n\n", "stream_failed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, nil, says(t, tc.sent), well(t, "second"))
			if got := events(r.stream().body); got != tc.want && (strings.HasPrefix(tc.want, "data:") || !strings.Contains(got, tc.want)) || strings.Contains(got, "memory") {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// A byte order mark is no part of an answer, in whatever form it comes.
func TestByteOrderMarks(t *testing.T) {
	const mark = "\ufeff"
	refused := `{"error":{"message":"no","code":"their_code"}}`
	cases := map[string]struct {
		sent     string
		streamed bool
		want     string // what is left of the answer without comments
	}{
		"before JSON":                         {status(200, "", mark+whole), false, whole},
		"before JSON, cut within the mark":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked("\xef") + chunked("\xbb\xbf"+whole) + chunked(""), false, whole},
		"before JSON that becomes a stream":   {status(200, "", mark+whole), true, chunk(`{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}`) + fin + done},
		"before a stream":                     {sseHead + mark + c("hi") + fin + done, true, c("hi") + fin + done},
		"before a stream that becomes JSON":   {sseHead + mark + c("hi") + fin + done, false, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`},
		"before an error":                     {status(400, "", mark+refused), false, refused[:len(refused)-2] + `,"upstream_status":400}}`},
		"a second one is no part of a stream": {sseHead + mark + c("a"+mark) + fin + done, true, c("a"+mark) + fin + done},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, nil, says(t, tc.sent))
			ask := r.ask
			if tc.streamed {
				ask = r.stream
			}
			if diff := cmp.Diff(tc.want, events(ask().body)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// With several choices the answer is whole when each of them has its finish reason.
func TestSeveralChoicesAreWholeTogether(t *testing.T) {
	both := chunk(choice(0, "x", "null")) + chunk(choice(1, "y", "null"))
	cases := map[string]struct {
		sent     string
		wantCode string
	}{
		"both finished":                          {both + chunk(choice(0, "", "stop")) + chunk(choice(1, "", "length")), ""},
		"both finished in one event":             {both + chunk(choice(0, "", "stop")+","+choice(1, "", "stop")), ""},
		"one finished":                           {both + chunk(choice(0, "", "stop")), "stream_incomplete"},
		"the other finished":                     {both + chunk(choice(1, "", "stop")), "stream_incomplete"},
		"one finished, DONE says the rest":       {both + chunk(choice(0, "", "stop")) + done, ""},
		"without an index there is but one":      {chunk(`{"delta":{"content":"x"}}`) + chunk(`{"delta":{},"finish_reason":"stop"}`), ""},
		"a choice beyond any mask":               {chunk(choice(0, "x", "null")) + chunk(choice(200, "y", "null")) + chunk(choice(0, "", "stop")), "stream_incomplete"},
		"choices beyond any mask, all finished":  {chunk(choice(200, "y", "null")) + chunk(choice(200, "", "stop")), ""},
		"usage behind both":                      {both + chunk(choice(0, "", "stop")) + chunk(choice(1, "", "stop")) + chunk(""), ""},
		"a finish before the other's first word": {chunk(choice(0, "x", "null")) + chunk(choice(0, "", "stop")) + chunk(choice(1, "y", "null")), "stream_incomplete"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, nil, says(t, sseHead, tc.sent))
			got := r.stream()
			if tc.wantCode != "" {
				if said := got.said(t); said.Code != tc.wantCode {
					t.Errorf("error %+v", said)
				}
				return
			}
			if diff := cmp.Diff(strings.TrimSuffix(tc.sent, done)+done, events(got.body)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func gzipped(pieces ...string) []string {
	var out []string
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	for _, p := range pieces {
		_, _ = z.Write([]byte(p))
		_ = z.Flush()
		out = append(out, buf.String())
		buf.Reset()
	}
	_ = z.Close()
	return append(out, buf.String())
}

func zstded(pieces ...string) []string {
	var out []string
	var buf bytes.Buffer
	z, _ := zstd.NewWriter(&buf)
	for _, p := range pieces {
		_, _ = z.Write([]byte(p))
		_ = z.Flush()
		out = append(out, buf.String())
		buf.Reset()
	}
	_ = z.Close()
	return append(out, buf.String())
}

func TestCompressedStreamsPassAtOnce(t *testing.T) {
	for coding, code := range map[string]func(...string) []string{"gzip": gzipped, "zstd": zstded} {
		t.Run(coding, func(t *testing.T) {
			t.Parallel()
			more := make(chan struct{})
			u := newUpstream(t, func(_ int, w *wire) {
				pieces := code(role, c("one"), c("two"), fin+done)
				w.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: " + coding + "\r\nConnection: close\r\n\r\n")
				w.send(pieces[0], pieces[1])
				w.await(more)
				w.send(pieces[2:]...)
			})
			r := routed(t, nil, u)
			cl := dial(t).send(request(chat, r.streamed()))
			head := cl.until("one\"},\"finish_reason\":null}]}\n\n")
			close(more)
			rest := cl.until(done)
			if strings.Contains(head, "Content-Encoding") || !strings.Contains(rest, c("two")) || !strings.Contains(rest, fin) {
				t.Errorf("%q then %q", head, rest)
			}
		})
	}
}

func TestStatusTellsEvenWhereTheBodyIsSilent(t *testing.T) {
	cases := map[string]struct {
		head string
		want told
	}{
		"429 with Retry-After": {"HTTP/1.1 429 x\r\nRetry-After: 7\r\nContent-Length: 100\r\n\r\n{", told{429, "backend_saturated", "7", "a refused"}},
		"500":                  {"HTTP/1.1 500 x\r\nContent-Length: 100\r\n\r\n{", told{502, "upstream_error", "", "a failed"}},
		"401":                  {"HTTP/1.1 401 x\r\nTransfer-Encoding: chunked\r\n\r\n", told{502, "upstream_misconfigured", "", "a misconfigured"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, settings{"saturation": "{slowAfter: 1s, coldStartGrace: 0s}"}, newUpstream(t, func(_ int, w *wire) {
				w.send(tc.head)
				w.silence()
			}))
			if diff := cmp.Diff(tc.want, r.stream().said(t)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBlankLinesBeforeTheAnswer(t *testing.T) {
	blank := strings.Repeat("\n", 5000)
	cases := map[string]struct {
		stream bool
		sent   string
		want   string
	}{
		"JSON to a request for a body":  {false, "HTTP/1.1 200 OK\r\n\r\n" + blank + whole, whole},
		"SSE to a request for a stream": {true, sseHead + blank + c("a") + fin + done, c("a") + fin + done},
		"comments, then SSE":            {true, sseHead + strings.Repeat(": keep-alive\n\n", 500) + c("a") + fin + done, c("a") + fin + done},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := routed(t, nil, says(t, tc.sent))
			got := r.ask()
			if tc.stream {
				got = r.stream()
			}
			if diff := cmp.Diff(tc.want, strings.TrimLeft(events(got.body), "\n")); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
