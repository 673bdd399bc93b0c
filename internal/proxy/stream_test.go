package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/table"
)

var (
	attemptA1 = beat(stream.Heartbeat{State: stream.StateAttempt, N: 1, Of: 1, Backend: "a", Regime: "unknown"})
	startedA1 = beat(stream.Heartbeat{State: stream.StateUpstreamStarted, N: 1, Backend: "a", Reason: "first"})
	attemptA2 = beat(stream.Heartbeat{State: stream.StateAttempt, N: 1, Of: 2, Backend: "a", Regime: "unknown"})
	attemptB2 = beat(stream.Heartbeat{State: stream.StateAttempt, N: 2, Of: 2, Backend: "b", Regime: "unknown"})
)

const usage = `data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}` + "\n\n"

func errorEvent(code string) string { return `"code":"` + code + `"` }

func TestStreamsPassByteForByte(t *testing.T) {
	cases := map[string]struct {
		sent []string
		want string
	}{
		"role chunk, tokens, finish and DONE": {
			sent: []string{role, c("Paris"), fin, done},
			want: role + c("Paris") + fin + done,
		},
		"a byte order mark that is cut is taken off, a later one stays": {
			sent: []string{"\xEF", "\xBB\xBF" + c("one") + c("two\ufeff") + fin + done},
			want: c("one") + c("two\ufeff") + fin + done,
		},
		"an event larger than any read buffer": {
			sent: []string{c(strings.Repeat("a", 64<<10+1)), fin, done},
			want: c(strings.Repeat("a", 64<<10+1)) + fin + done,
		},
		"line ends of all kinds become LF, cut anywhere": {
			sent: []string{strings.ReplaceAll(c("x"), "\n", "\r\n")[:len(c("x"))+1], "\n", strings.ReplaceAll(fin, "\n", "\r"), done},
			want: c("x") + fin + done,
		},
		"multibyte text, byte by byte": {
			sent: strings.Split(c("北京🙂")+fin+done, ""),
			want: c("北京🙂") + fin + done,
		},
		"finish without DONE is whole and gets its DONE": {
			sent: []string{c("a"), fin, usage},
			want: c("a") + fin + usage + done,
		},
		"DONE without finish is whole": {
			sent: []string{c("a"), done},
			want: c("a") + done,
		},
		"a last word without its empty line counts": {
			sent: []string{c("a"), strings.TrimSuffix(done, "\n\n")},
			want: c("a") + done,
		},
		"a last event without its empty line is sent on": {
			sent: []string{c("a"), strings.TrimSuffix(fin, "\n\n")},
			want: c("a") + fin + done,
		},
		"blocks without payload and comments of the backend are dropped": {
			sent: []string{"retry: 3000\n\n: hi\n\nid: 7\n\ndata:\n\ndata: null\n\n", ": OPENROUTER PROCESSING\n\n", c("x"), fin, done},
			want: c("x") + fin + done,
		},
		"usage, null choices and chunks without choices pass": {
			sent: []string{c("a"), fin, usage, "data: {\"choices\":null}\n\n", done},
			want: c("a") + fin + usage + "data: {\"choices\":null}\n\n" + done,
		},
		"a reset after the finish is no harm": {
			sent: []string{c("a"), fin, "\x00reset"},
			want: c("a") + fin + done,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(_ int, w *wire) {
				w.send(strings.Replace(sseHead, "\r\n", "\r\nX-Backend-Word: kept\r\nX-Spillway-Route: forged\r\n", 1))
				for _, piece := range tc.sent {
					if piece == "\x00reset" {
						w.reset()
						return
					}
					w.send(piece)
				}
			})
			r := newRig(t, newRoute(u))
			got := r.post(streamed)
			if diff := cmp.Diff(attemptA1+startedA1+tc.want, got.body); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
			if got.status != http.StatusOK || got.err != nil || got.header.Get("X-Backend-Word") != "kept" ||
				got.header.Get("Cache-Control") != "no-cache" || got.header.Get("X-Accel-Buffering") != "no" || got.header.Get("X-Spillway-Route") != "ns/m" {
				t.Errorf("status %d, header %v, error %v", got.status, got.header, got.err)
			}
			if records := r.breakers.Records(); len(records) != 0 {
				t.Errorf("the breaker holds something against a good backend: %+v", records)
			}
		})
	}
}

// An answer that names no model gets none.
func TestAnswersWithoutAModelStayAsTheyAre(t *testing.T) {
	bare := func(s string) string { return strings.ReplaceAll(s, `"model":"m",`, "") }
	route := newRoute(newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.send(sseHead, bare(c("a")+fin)+done)
		} else {
			w.send(status(200, "", bare(whole)))
		}
	}))
	route.ResponseModel = table.ModelLogical
	r := newRig(t, route)
	if diff := cmp.Diff(bare(c("a")+fin)+done, events(r.post(streamed).body)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(bare(whole), r.post(unary).body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

func TestLogicalModelIsWhatTheCallerSees(t *testing.T) {
	route := newRoute(newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.send(sseHead, c("a"), fin, done)
		} else {
			w.send(status(200, "", whole))
		}
	}))
	route.ResponseModel = table.ModelLogical
	r := newRig(t, route)
	logical := func(s string) string { return strings.ReplaceAll(s, `"model":"m"`, `"model":"ns/m"`) }
	if diff := cmp.Diff(logical(c("a")+fin)+done, events(r.post(streamed).body)); diff != "" {
		t.Errorf("stream (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(logical(whole), r.post(unary).body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// A backend that accepts and goes quiet is left at any stage, and its events are never seen.
func TestFirstTokenDeadlineFiresAtEveryStage(t *testing.T) {
	const slow = 80 * time.Millisecond
	dribble := func(piece string) func(int, *wire) {
		return func(_ int, w *wire) {
			w.send(sseHead)
			w.dribble(piece)
		}
	}
	hang := func(pieces ...string) func(int, *wire) {
		return func(_ int, w *wire) {
			w.send(pieces...)
			w.silence()
		}
	}
	cases := map[string]struct {
		script func(int, *wire)
		scheme string
		body   string
	}{
		"no TLS handshake":                 {script: hang(), scheme: "https://"},
		"no header":                        {script: hang()},
		"half a header":                    {script: hang("HTTP/1.1 200 OK\r\nContent-Ty")},
		"header, then silence":             {script: hang(sseHead)},
		"role chunk, then silence":         {script: hang(sseHead, role)},
		"half an event, then silence":      {script: hang(sseHead, c("a")[:20])},
		"comments for ever":                {script: dribble(": ping\n\n")},
		"role chunks for ever":             {script: dribble(role)},
		"blanks for ever":                  {script: dribble("\n")},
		"a JSON body that never ends":      {script: hang("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"choices\":[")},
		"no stream asked for, no header":   {script: hang(), body: unary},
		"no stream asked for, half a body": {script: hang("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"), body: unary},
		"no stream asked for, SSE instead": {script: dribble(c("a")), body: unary},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, tc.script)
			b := newUpstream(t, func(_ int, w *wire) {
				if tc.body == "" {
					w.send(sseHead, role, c("b"), fin, done)
				} else {
					w.send(status(200, "", whole))
				}
			})
			route := newRoute(a, b)
			route.Chain[0].Saturation.SlowAfter, route.Chain[0].Saturation.NonStreamingSlowAfter = slow, slow
			if tc.scheme != "" {
				route.Chain[0].BaseURL = strings.Replace(route.Chain[0].BaseURL, "http://", tc.scheme, 1)
			}
			r := newRig(t, route)
			if tc.body == unary {
				if got := r.post(unary); got.body != whole || got.header.Get("X-Spillway-Backend") != "b" || got.header.Get("X-Spillway-Reason") != "saturated" {
					t.Errorf("answer %q, header %v", got.body, got.header)
				}
			} else {
				want := attemptA2 + beat(stream.Heartbeat{State: stream.StateBackendSaturated, Backend: "a", FailingOver: true, Code: "backend_saturated"}) + attemptB2 +
					beat(stream.Heartbeat{State: stream.StateUpstreamStarted, N: 2, Backend: "b", Reason: "saturated"}) + role + c("b") + fin + done
				if diff := cmp.Diff(want, r.post(streamed).body); diff != "" {
					t.Errorf("stream (-want +got):\n%s", diff)
				}
			}
			records := r.breakers.Records()
			if len(records) != 1 || records[0].ID != "a" || records[0].Saturations != 1 || records[0].Failures != 0 {
				t.Errorf("breakers = %+v, want one saturation of a", records)
			}
		})
	}
}

// rest is what is left of a body.
type rest struct {
	io.Reader
	io.Closer
}

// readUntil reads lines until one begins with prefix.
func readUntil(t *testing.T, in *bufio.Reader, prefix string) string {
	t.Helper()
	var got strings.Builder
	for {
		line, err := in.ReadString('\n')
		got.WriteString(line)
		if err != nil {
			t.Fatalf("the stream ended before %q: %q", prefix, got.String())
		}
		if strings.HasPrefix(line, prefix) {
			return got.String()
		}
	}
}

func TestCommentsAreCommittedLateAndRepeated(t *testing.T) {
	for form, end := range map[table.HeartbeatForm]string{table.HeartbeatLine: "\n", table.HeartbeatBlock: "\n\n"} {
		t.Run(string(form), func(t *testing.T) {
			token := make(chan struct{})
			a := newUpstream(t, func(_ int, w *wire) {
				w.send(sseHead, role, c("a")[:10])
				w.until(token)
				w.send(c("a")[10:], fin, done)
			})
			route := newRoute(a)
			route.Heartbeat = table.Heartbeat{CommitAfter: 20 * time.Millisecond, Interval: 10 * time.Millisecond, Form: form}
			r := newRig(t, route)
			resp := r.start(streamed) // returns with the early commit
			for _, name := range []string{"X-Spillway-Backend", "X-Spillway-Attempts", "X-Spillway-Reason"} {
				if v := resp.Header.Get(name); v != "" {
					t.Errorf("%s: %q is not final on an early commit", name, v)
				}
			}
			in := bufio.NewReader(resp.Body)
			attempt := strings.TrimSuffix(attemptA1, "\n")
			if got := readUntil(t, in, ":"); got != attempt+"\n" {
				t.Errorf("first comment %q", got)
			}
			beat := strings.TrimSuffix(attempt, "}") + `,"elapsed_ms":`
			readUntil(t, in, beat)
			readUntil(t, in, beat)
			close(token)
			resp.Body = rest{in, resp.Body}
			_, last, _ := strings.Cut(finish(resp).body, strings.TrimSuffix(startedA1, "\n"))
			if diff := cmp.Diff(end+role+c("a")+fin+done, last); diff != "" {
				t.Errorf("from the first token on (-want +got):\n%s", diff)
			}
		})
	}
}

// Once the status line is out a state is told when it comes, and not with the next output.
func TestStatesAreToldAtOnce(t *testing.T) {
	goOn := make(chan struct{})
	a := newUpstream(t, func(_ int, w *wire) { w.silence() })
	b := newUpstream(t, func(_ int, w *wire) {
		<-goOn
		w.send(sseHead, c("b"), fin, done)
	})
	route := newRoute(a, b)
	route.Heartbeat.CommitAfter = time.Millisecond
	route.Chain[0].Saturation.SlowAfter = 50 * time.Millisecond
	r := newRig(t, route)
	in := bufio.NewReader(r.start(streamed).Body)
	for _, state := range []string{`: {"state":"attempt","n":1`, `: {"state":"backend_saturated"`, `: {"state":"attempt","n":2`} {
		readUntil(t, in, state)
	}
	close(goOn)
	readUntil(t, in, "data: [DONE]")
}

// What was written is counted, by state; what a caller never saw is not.
func TestHeartbeatsAreCounted(t *testing.T) {
	a := newUpstream(t, func(_ int, w *wire) { w.silence() })
	b := newUpstream(t, func(n int, w *wire) {
		if n > 0 {
			w.send(status(500, "", `{}`))
			return
		}
		w.pause(50 * time.Millisecond)
		w.send(sseHead, c("b"), fin, done)
	})
	route := newRoute(a, b)
	route.Heartbeat = table.Heartbeat{CommitAfter: time.Minute, Form: table.HeartbeatLine}
	route.Chain[0].Saturation.SlowAfter = 20 * time.Millisecond
	r := newRig(t, route)
	sample := func(state, n string) string {
		return `llm_stream_heartbeats_total{logical_model="ns/m",state="` + state + `"} ` + n
	}
	for range 2 { // the second one ends before the commit, with a status of its own
		r.post(streamed)
	}
	for state, n := range map[string]string{"attempt": "2", "backend_saturated": "1", "upstream_started": "1"} {
		if !r.counted(sample(state, n)) {
			t.Errorf("%s was not written %s times", state, n)
		}
	}
	if strings.Contains(r.exposed(), `state="backend_failed"`) {
		t.Error("what nobody was told is counted")
	}
}

// From the first token on keepalives stand between events, never within one, and none follows the last.
func TestKeepalivesStandBetweenEvents(t *testing.T) {
	a := newUpstream(t, func(_ int, w *wire) {
		w.send(sseHead)
		for _, b := range []byte(c("one") + c("two") + fin + done) {
			w.send(string(b))
			if b == '"' {
				w.pause(time.Millisecond)
			}
		}
	})
	route := newRoute(a)
	route.Heartbeat.Interval = time.Millisecond
	got := newRig(t, route).post(streamed)
	if diff := cmp.Diff(c("one")+c("two")+fin+done, events(got.body)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.body, `"reason":"first","elapsed_ms":`) || !strings.HasSuffix(got.body, done) {
		t.Errorf("keepalives between the events, and none behind: %q", got.body)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(got.body, "\n\n"), "\n\n") {
		lines := strings.Split(block, "\n")
		for _, line := range lines[:len(lines)-1] {
			if !strings.HasPrefix(line, ": {") {
				t.Errorf("a comment within an event: %q", block)
			}
		}
	}
}

func TestErrorsBeforeAndAfterTheCommit(t *testing.T) {
	throttled := status(429, "Retry-After: 7\r\n", `{"error":{"message":"slow down"}}`)
	cases := map[string]struct {
		commitAfter time.Duration
		last        string
		wantStatus  int
		wantCode    string
		wantEvents  string // of a stream
	}{
		"all fail before the commit: the true status": {commitAfter: time.Minute, last: status(500, "", `{}`), wantStatus: 502, wantCode: "upstream_error"},
		"all fail after the commit: an error event":   {commitAfter: 5 * time.Millisecond, last: status(500, "", `{}`), wantStatus: 200, wantCode: "upstream_error"},
		"a good one after the commit: its tokens": {commitAfter: 5 * time.Millisecond, last: sseHead + c("b") + fin + done, wantStatus: 200,
			wantEvents: c("b") + fin + done},
		"a rejection after the commit: the backend's own error": {commitAfter: 5 * time.Millisecond, last: status(400, "", `{"error":{"message":"bad tool","code":"bad_tool"}}`),
			wantStatus: 200, wantEvents: `data: {"error":{"message":"bad tool","code":"bad_tool","upstream_status":400}}` + "\n\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(_ int, w *wire) {
				w.pause(50 * time.Millisecond) // past the commit
				w.send(throttled)
			})
			route := newRoute(a, says(t, tc.last))
			route.Heartbeat.CommitAfter = tc.commitAfter
			got := newRig(t, route).post(streamed)
			if got.status != tc.wantStatus {
				t.Errorf("status %d, want %d", got.status, tc.wantStatus)
			}
			if tc.wantCode != "" && !strings.Contains(got.body, errorEvent(tc.wantCode)) || strings.Contains(got.body, "[DONE]") != strings.Contains(tc.wantEvents, "[DONE]") {
				t.Errorf("body %q, want the code %q", got.body, tc.wantCode)
			}
			if tc.wantEvents != "" && events(got.body) != tc.wantEvents {
				t.Errorf("events %q, want %q", events(got.body), tc.wantEvents)
			}
			if tc.wantStatus == 200 && tc.wantCode != "" && !strings.HasPrefix(events(got.body), `data: {"error":{`) {
				t.Errorf("not an error event: %q", got.body)
			}
		})
	}
}

func TestStreamsThatBreakAreToldSo(t *testing.T) {
	cases := map[string]struct {
		script   func(*wire)
		wantCode string
	}{
		"a clean end without finish":     {func(w *wire) { w.send(sseHead, c("one")) }, "stream_incomplete"},
		"a reset":                        {func(w *wire) { w.send(sseHead, c("one")); w.pause(20 * time.Millisecond); w.reset() }, "stream_incomplete"},
		"a Content-Length never reached": {func(w *wire) { w.send("HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", c("one")) }, "stream_incomplete"},
		"an error event": {func(w *wire) {
			w.send(sseHead, c("one"), "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"at 10.0.0.1\"}}\n\n")
		}, "stream_failed"},
		"half an event at the end":   {func(w *wire) { w.send(sseHead, c("one"), fin[:30]) }, "stream_incomplete"},
		"silence longer than idle":   {func(w *wire) { w.send(sseHead, c("one")); w.silence() }, "stream_idle"},
		"an event larger than a cap": {func(w *wire) { w.send(sseHead, c("one"), "data: "+strings.Repeat("x", 17<<20)) }, "stream_failed"},
	}
	said := map[string]string{"stream_incomplete": "ended", "stream_idle": "went silent", "stream_failed": "failed"}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := says(t, sseHead, c("b"), fin, done)
			route := newRoute(newUpstream(t, func(_ int, w *wire) { tc.script(w) }), b)
			if tc.wantCode == "stream_idle" {
				route.Timeouts.Idle = 100 * time.Millisecond
			}
			r := newRig(t, route)
			got := r.post(streamed)
			rest, ok := strings.CutPrefix(events(got.body), c("one"))
			if !ok || !strings.HasPrefix(rest, `data: {"error":{`) || !strings.Contains(rest, errorEvent(tc.wantCode)) || strings.Count(rest, "\n\n") != 1 {
				t.Errorf("events %q, want the first token, then one error event with %s", events(got.body), tc.wantCode)
			}
			for _, part := range []string{`"message":"the stream of backend a ` + said[tc.wantCode] + ` before its answer was whole"`, `"attempts":[{"backend":"a","class":"broken"}]`} {
				if !strings.Contains(rest, part) {
					t.Errorf("no %s in %q", part, rest)
				}
			}
			if strings.Contains(got.body, "10.0.0.1") || strings.Contains(got.body, "127.0.0.1") {
				t.Errorf("the error names a host: %q", rest)
			}
			if b.count() != 0 {
				t.Error("another backend was asked after the first token")
			}
			if records := r.breakers.Records(); len(records) != 1 || records[0].Failures != 1 {
				t.Errorf("breakers = %+v, want one failure", records)
			}
		})
	}
}

func TestFinishedStreamThatStaysOpenIsWhole(t *testing.T) {
	for name, header := range map[string][]string{"to the end of idle": nil, "to the end of the budget": {"X-Request-Timeout-Ms", "150"}} {
		t.Run(name, func(t *testing.T) {
			route := newRoute(newUpstream(t, func(_ int, w *wire) { w.send(sseHead, c("a"), fin); w.silence() }))
			if header == nil {
				route.Timeouts.Idle = 50 * time.Millisecond
			}
			r := newRig(t, route)
			if got := events(r.post(streamed, header...).body); got != c("a")+fin+done {
				t.Errorf("events %q", got)
			}
			if learnedBy(r.breakers, "a") != clean {
				t.Errorf("breaker %+v", learnedBy(r.breakers, "a"))
			}
		})
	}
}

func TestAnswersInTheOtherFormAreConverted(t *testing.T) {
	t.Run("JSON to a request for a stream", func(t *testing.T) {
		r := newRig(t, newRoute(says(t, status(200, "", whole))))
		stream := r.post(streamed)
		if !strings.HasPrefix(stream.body, attemptA1+startedA1+"data: ") || stream.header.Get("Content-Type") != "text/event-stream" || stream.header.Get("X-Spillway-Backend") != "a" {
			t.Errorf("stream %q, header %v", stream.body, stream.header)
		}
		got := events(stream.body)
		if !strings.Contains(got, `"content":"hi"`) || !strings.Contains(got, `"finish_reason":"stop"`) || !strings.HasSuffix(got, done) {
			t.Errorf("events %q", got)
		}
		if strings.Contains(got, `"usage"`) {
			t.Errorf("usage that nobody asked for: %q", got)
		}
		if got := r.post(`{"model":"ns/m","stream":true,"Stream_Options":{"include_usage":true}}`).body; strings.Contains(got, `"usage"`) {
			t.Errorf("usage because of a field in another case: %q", got)
		}
		got = events(r.post(`{"model":"ns/m","stream":true,"stream_options":{"include_usage":true}}`).body)
		if !strings.Contains(got, `"usage"`) {
			t.Errorf("no usage: %q", got)
		}
	})
	t.Run("SSE to a request for a body", func(t *testing.T) {
		r := newRig(t, newRoute(says(t, sseHead, role, c("Hello, "), c("world"), fin, usage, done)))
		got := r.post(unary)
		if got.header.Get("Content-Type") != "application/json" || !strings.Contains(got.body, `"content":"Hello, world"`) {
			t.Errorf("body %q, header %v", got.body, got.header)
		}
	})
	t.Run("SSE that is cut is no body", func(t *testing.T) {
		r := newRig(t, newRoute(says(t, sseHead, role, c("Hello, "))))
		if got := r.post(unary); got.status != 502 || !strings.Contains(got.body, errorEvent("response_validation_failed")) {
			t.Errorf("status %d, body %q", got.status, got.body)
		}
	})
}
