package stream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/stream"
)

// answer is a server's answer, before anybody has opened it.
type answer struct {
	status      int
	contentType string
	body        io.Reader
	retryAfter  string
}

func response(status int, contentType string, body io.Reader) answer {
	return answer{status: status, contentType: contentType, body: body}
}

func events(body string) answer {
	return response(http.StatusOK, "text/event-stream", strings.NewReader(body))
}

func (a answer) open(ctx context.Context, opts stream.Options) *stream.Reader {
	rc, ok := a.body.(io.ReadCloser)
	if !ok {
		rc = io.NopCloser(a.body)
	}
	header := http.Header{"Content-Type": {a.contentType}, "Retry-After": {a.retryAfter}}
	return stream.Open(ctx, &http.Response{StatusCode: a.status, Header: header, Body: rc}, opts)
}

func data(content string) string {
	return `data: {"choices":[{"index":0,"delta":{"content":"` + content + `"},"finish_reason":null}]}` + "\n\n"
}

const (
	fin  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done = "data: [DONE]\n\n"

	second    = `data: {"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":null}]}` + "\n\n"
	secondFin = `data: {"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}` + "\n\n"

	attempt = `: {"state":"attempt","n":1,"of":2,"backend":"tower","regime":"contended"}` + "\n"
)

// drain reads to the end and tells what came, one word for each event.
func drain(r *stream.Reader) (string, error) {
	var seen []string
	for {
		ev, err := r.Next()
		if err != nil {
			if _, again := r.Next(); !errors.Is(again, err) {
				return "the error does not stay", again
			}
			return strings.Join(seen, " "), err
		}
		switch {
		case ev.Heartbeat != nil:
			seen = append(seen, string(ev.Heartbeat.State))
		case ev.Whole:
			seen = append(seen, "whole")
		default:
			seen = append(seen, "data")
		}
	}
}

func TestReaderEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		want    string
		wantErr error
	}{
		"heartbeats stand beside data":                    {attempt + data("a") + fin + done, "attempt data data", io.EOF},
		"a heartbeat in block form":                       {attempt + "\n" + data("a") + fin + done, "attempt data data", io.EOF},
		"a heartbeat that cannot be parsed is skipped":    {": {\"state\":\n: {\"state\":5}\n: {\"state\":\"queued\",\"position\":\"x\"}\n: {}\n: hi\n:\n" + data("a") + fin + done, "data data", io.EOF},
		"a last [DONE] without its blank line":            {data("a") + "data: [DONE]", "data", io.EOF},
		"only the first byte order mark is taken off":     {"\ufeff" + data("a") + "\ufeff" + data("b") + fin, "data data", io.EOF},
		"two byte order marks":                            {"\ufeff\ufeff" + data("a") + fin, "data", io.EOF},
		"a stream without [DONE] but with a finish":       {data("a") + fin, "data data", io.EOF},
		"[DONE] without a finish":                         {data("a") + done, "data", io.EOF},
		"nothing behind [DONE] counts":                    {done + data("a"), "", io.EOF},
		"neither [DONE] nor a finish":                     {data("a"), "data", stream.ErrIncomplete},
		"nothing at all":                                  {"", "", stream.ErrIncomplete},
		"heartbeats alone":                                {attempt, "attempt", stream.ErrIncomplete},
		"a last event without its blank line":             {data("a") + strings.TrimRight(fin, "\n"), "data data", io.EOF},
		"a last event that is null":                       {data("a") + fin + "data: null", "data data", io.EOF},
		"a last event that is cut":                        {data("a") + fin[:30], "data", stream.ErrIncomplete},
		"CR LF, and a byte order mark":                    {"\ufeff" + strings.ReplaceAll(attempt+data("a")+fin+done, "\n", "\r\n"), "attempt data data", io.EOF},
		"CR LF within an event and LF behind it":          {strings.ReplaceAll(data("a")+fin+done, "\n\n", "\r\n\n"), "data data", io.EOF},
		"lone CR":                                         {strings.ReplaceAll(attempt+data("a")+fin+done, "\n", "\r"), "attempt data data", io.EOF},
		"blocks without payload":                          {"retry: 3000\n\nid: 7\n\ndata:\n\ndata: null\n\nevent: x\n\n" + data("a") + done, "data", io.EOF},
		"one event over several lines":                    {"data: {\"choices\":\ndata: []}\n\n" + done, "data", io.EOF},
		"a line of a megabyte":                            {data(strings.Repeat("a", 1<<20)) + done, "data", io.EOF},
		"a line over the cap":                             {data(strings.Repeat("a", 2<<20)) + done, "", stream.ErrTooLarge},
		"lines that pass the cap together":                {strings.Repeat("data: "+strings.Repeat("a", 1000)+"\n", 2000) + done, "", stream.ErrTooLarge},
		"the responses dialect ends with its own event":   {"event: response.completed\ndata: {\"type\":\"response.completed\"}\n\n", "data", io.EOF},
		"a response may end early, by its limit":          {"data: {\"type\":\"response.incomplete\"}\n\n", "data", io.EOF},
		"a response may end by another name":              {"data: {\"type\":\"response.done\"}\n\n", "data", io.EOF},
		"the messages dialect ends with its own event":    {"data: {\"type\":\"message_stop\"}\n\n", "data", io.EOF},
		"data that is no JSON is the caller's to judge":   {"data: hi\n\n" + done, "data", io.EOF},
		"an error that is empty is none":                  {"data: {\"error\":{},\"choices\":[{\"error\":null}]}\n\ndata: {\"error\":\"\"}\n\ndata: {\"error\":[]}\n\ndata: {\"error\":false}\n\ndata: {\"error\":0}\n\n" + done, "data data data data data", io.EOF},
		"an error that is null is none":                   {"data: {\"error\":null,\"choices\":[]}\n\n" + done, "data", io.EOF},
		"a finish reason that is empty is none":           {strings.ReplaceAll(data("a"), "null", `""`), "data", stream.ErrIncomplete},
		"a choice that is named again behind its finish":  {data("a") + fin + data(""), "data data data", io.EOF},
		"two choices of which one has its finish":         {data("a") + second + fin, "data data data", stream.ErrIncomplete},
		"two choices that have their finish":              {data("a") + second + fin + secondFin, "data data data data", io.EOF},
		"usage behind the finish of both":                 {data("a") + second + secondFin + fin + "data: {\"choices\":[],\"usage\":{}}\n\n", "data data data data data", io.EOF},
		"keepalives repeat the state":                     {attempt + attempt + data("a") + done, "attempt attempt data", io.EOF},
		"a heartbeat between the lines of another's data": {"data: {\"choices\":\n" + attempt + "data: []}\n\n" + done, "attempt data", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			for split, resp := range map[string]answer{
				"in large reads": events(tc.body),
				"byte by byte":   response(200, "text/event-stream", iotest.OneByteReader(strings.NewReader(tc.body))),
				"data with EOF":  response(200, "text/event-stream", iotest.DataErrReader(strings.NewReader(tc.body))),
			} {
				if split == "byte by byte" && len(tc.body) > 4096 {
					continue
				}
				r := resp.open(t.Context(), stream.Options{MaxEvent: 3 << 19})
				got, err := drain(r)
				if got != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("%s: %q and %v, want %q and %v", split, got, err, tc.want, tc.wantErr)
				}
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The cap is one event's, however much comes in one read; and a line is over it before its end.
func TestReaderCapsOneEvent(t *testing.T) {
	endless := readFunc(func(p []byte) (int, error) { p[0] = 'a'; return 1, nil })
	for name, tc := range map[string]struct {
		body    io.Reader
		want    string
		wantErr error
	}{
		"many events in one read":    {strings.NewReader(strings.Repeat("data: 1\n\n", 5) + done), "data data data data data", io.EOF},
		"a whole line in one read":   {strings.NewReader("data: 12345678901234567890\n\n"), "", stream.ErrTooLarge},
		"all of it with the end":     {iotest.DataErrReader(strings.NewReader("data: 12345678901234567890\n\n")), "", stream.ErrTooLarge},
		"a line that does not end":   {endless, "", stream.ErrTooLarge},
		"an event that does not end": {io.MultiReader(strings.NewReader("data: 1234567890\ndata: 1"), endless), "", stream.ErrTooLarge},
	} {
		r := response(200, "text/event-stream", tc.body).open(t.Context(), stream.Options{MaxEvent: 20})
		if got, err := drain(r); got != tc.want || !errors.Is(err, tc.wantErr) {
			t.Errorf("%s: %q and %v, want %q and %v", name, got, err, tc.want, tc.wantErr)
		}
	}
}

// An event's data is the values of its lines, joined by LF, whichever end the lines have.
func TestReaderJoinsTheLinesOfData(t *testing.T) {
	const body = "event: a\nevent: b\ndata: 1\ndata:\ndata:  2\ndata\nid: 7\ndata: 3\n\ndata:4\n\n"
	for name, end := range map[string]string{"LF": "\n", "CR LF": "\r\n", "CR": "\r"} {
		for split, from := range map[string]func(string) io.Reader{
			"whole": func(s string) io.Reader { return strings.NewReader(s) },
			"bytes": func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
		} {
			r := response(200, "text/event-stream", from(strings.ReplaceAll(body, "\n", end))).open(t.Context(), stream.Options{})
			first, err := r.Next()
			second, err2 := r.Next()
			want := []string{"b", "1\n\n 2\n\n3", "", "4"}
			got := []string{first.Name, string(first.Data), second.Name, string(second.Data)}
			if diff := cmp.Diff(want, got); diff != "" || err != nil || err2 != nil {
				t.Errorf("%s, %s: %v, %v (-want +got):\n%s", name, split, err, err2, diff)
			}
			_ = r.Close()
		}
	}
}

func TestErrorInWords(t *testing.T) {
	for want, e := range map[string]stream.Error{
		"c: m": {Code: "c", Message: "m", Status: 503}, "m": {Message: "m", Status: 503}, "c": {Code: "c", Status: 503},
		"the server answered with status 503": {Status: 503},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReaderErrorsOfTheServer(t *testing.T) {
	for name, tc := range map[string]struct {
		resp answer
		want stream.Error
	}{
		"an in-stream error": {
			events(attempt + `data: {"error":{"message":"m","type":"t","code":"stream_incomplete","param":null,"retry_after_ms":1500,"attempts":[{"backend":"tower","class":"Refused"}]}}` + "\n\n"),
			stream.Error{
				Status: 200, Message: "m", Type: "t", Code: "stream_incomplete", RetryAfter: 1500 * time.Millisecond,
				Attempts: []stream.Attempt{{Backend: "tower", Class: "Refused"}},
			},
		},
		"an in-stream error after tokens": {events(data("a") + `data: {"error":{"message":"m","code":502}}` + "\n\n"), stream.Error{Status: 200, Message: "m", Code: "502"}},
		"an error as a string":            {events("data: {\"error\":\"boom\"}\n\n"), stream.Error{Status: 200, Message: "boom"}},
		"an error with members of odd types": {
			events(`data: {"error":{"message":"m","upstream_status":"429","retry_after_ms":"1","param":{},"attempts":5,"code":"c"}}` + "\n\n"),
			stream.Error{Status: 200, Message: "m", Code: "c"},
		},
		"an error in a choice":            {events(`data: {"choices":[{"index":0},{"index":1,"error":{"code":502,"message":"m"}},{"error":"x"}]}` + "\n\n"), stream.Error{Status: 200, Message: "m", Code: "502"}},
		"an error in a response":          {events(`data: {"type":"response.failed","response":{"error":{"code":"c","message":"m"}}}` + "\n\n"), stream.Error{Status: 200, Message: "m", Code: "c"}},
		"an error above that of a choice": {events(`data: {"error":{"code":"c"},"choices":[{"error":{"code":"d"}}]}` + "\n\n"), stream.Error{Status: 200, Code: "c"}},
		"an error by its type":            {events(`data: {"type":"error","code":"c","message":"m"}` + "\n\n"), stream.Error{Status: 200, Message: "m", Type: "error", Code: "c"}},
		"an error that is true":           {events(`data: {"error":true}` + "\n\n"), stream.Error{Status: 200, Message: "an error that cannot be read (4 bytes)"}},
		"an error that is a number":       {events(`data: {"error":5}` + "\n\n"), stream.Error{Status: 200, Message: "an error that cannot be read (1 bytes)"}},
		"an error without words":          {events(`data: {"error":{"code":"c"}}` + "\n\n"), stream.Error{Status: 200, Code: "c"}},
		"an error of odd shape":           {events("data: {\"error\":[1]}\n\n"), stream.Error{Status: 200, Message: "an error that cannot be read (3 bytes)"}},
		"an error by its event's name":    {events("event: error\ndata: {\"message\":\"m\",\"code\":\"c\"}\n\n"), stream.Error{Status: 200, Message: "m", Code: "c"}},
		"a status with an envelope": {
			response(422, "application/json", strings.NewReader(`{"error":{"message":"m","code":"c","param":"p","upstream_status":422}}`)),
			stream.Error{Status: 422, Message: "m", Code: "c", Param: "p", UpstreamStatus: 422},
		},
		"a status with a message alone": {response(422, "application/json", strings.NewReader(`{"message":"m"}`)), stream.Error{Status: 422, Message: "m"}},
		"a status with nothing said":    {response(500, "application/json", strings.NewReader(`null`)), stream.Error{Status: 500}},
		"the first status that is none": {response(300, "text/event-stream", strings.NewReader(`{}`)), stream.Error{Status: 300}},
		"a status without a body":       {response(502, "text/html", strings.NewReader("<html>")), stream.Error{Status: 502}},
		"a JSON body with an error and status 200": {
			response(200, "application/json; charset=utf-8", strings.NewReader(`{"error":{"message":"m"}}`)), stream.Error{Status: 200, Message: "m"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := tc.resp.open(t.Context(), stream.Options{})
			_, err := drain(r)
			var got *stream.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want a *stream.Error", err)
			}
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Error() == "" {
				t.Error("an error without words")
			}
		})
	}
}

func TestReaderTakesRetryAfterFromTheHeader(t *testing.T) {
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "soon": 0, "-1": 0, "99999999999": 0} {
		resp := response(429, "application/json", strings.NewReader(`{"error":{"message":"m"}}`))
		resp.retryAfter = value
		_, err := resp.open(t.Context(), stream.Options{}).Next()
		if got := new(stream.Error); !errors.As(err, &got) || got.RetryAfter != want {
			t.Errorf("%q: %v, want %v", value, err, want)
		}
	}
}

// The body tells the time to the millisecond.
func TestReaderTakesRetryAfterFromTheBodyFirst(t *testing.T) {
	resp := response(429, "application/json", strings.NewReader(`{"error":{"message":"m","retry_after_ms":1500}}`))
	resp.retryAfter = "2"
	_, err := resp.open(t.Context(), stream.Options{}).Next()
	if got := new(stream.Error); !errors.As(err, &got) || got.RetryAfter != 1500*time.Millisecond {
		t.Error(err, got.RetryAfter)
	}
}

func TestReaderTakesRetryAfterFromTheBody(t *testing.T) {
	for value, want := range map[string]time.Duration{"1500": 1500 * time.Millisecond, "86400000": 24 * time.Hour,
		"86400001": 0, "-5": 0, "9223372036854775807": 0, "18446744073709": 0, "1e99": 0, `"soon"`: 0} {
		_, err := events(`data: {"error":{"message":"m","retry_after_ms":`+value+`}}`+"\n\n").open(t.Context(), stream.Options{}).Next()
		if got := new(stream.Error); !errors.As(err, &got) || got.RetryAfter != want {
			t.Errorf("%s: %v, want %v", value, got.RetryAfter, want)
		}
	}
}

func TestReaderReadsOneJSONBody(t *testing.T) {
	for name, tc := range map[string]struct {
		body    io.Reader
		want    string
		wantErr error
	}{
		"one without a finish reason": {strings.NewReader(`{"choices":[{"index":0,"message":{}}]}`), "whole", io.EOF},
		"a completion":                {strings.NewReader(`{"choices":[]}`), "whole", io.EOF},
		"a body that is cut":          {strings.NewReader(`{"choices":`), "", stream.ErrIncomplete},
		"a body that breaks":          {io.MultiReader(strings.NewReader(`{`), iotest.ErrReader(io.ErrUnexpectedEOF)), "", io.ErrUnexpectedEOF},
		"a body over the cap": {
			strings.NewReader(`{"x":"` + strings.Repeat("a", 100) + `"}`), "", stream.ErrTooLarge,
		},
	} {
		r := response(200, "application/json", tc.body).open(t.Context(), stream.Options{MaxEvent: 50})
		if got, err := drain(r); got != tc.want || !errors.Is(err, tc.wantErr) {
			t.Errorf("%s: %q and %v, want %q and %v", name, got, err, tc.want, tc.wantErr)
		}
	}
}

func TestReaderPassesOnTheConnectionsError(t *testing.T) {
	broken := errors.New("reset")
	for name, text := range map[string]string{"after an event": data("a"), "within an event": data("a") + "data: {"} {
		body := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
		got, err := drain(response(200, "text/event-stream", body).open(t.Context(), stream.Options{}))
		if got != "data" || !errors.Is(err, broken) {
			t.Errorf("%s: %q and %v", name, got, err)
		}
	}
}

// script plays a server that pauses: each step is written after its pause.
type step struct {
	pause time.Duration
	text  string
}

// play writes the steps and then stays silent until the reader closes.
func play(w *io.PipeWriter, steps []step) {
	for _, s := range steps {
		<-time.After(s.pause) // in a synctest bubble: the clock is fake
		if _, err := io.WriteString(w, s.text); err != nil {
			return
		}
	}
}

func TestReaderBoundsSilence(t *testing.T) {
	beat := func(pause time.Duration) step { return step{pause, attempt} }
	for name, tc := range map[string]struct {
		steps     []step
		idle      time.Duration
		ceiling   time.Duration // 0: none
		want      string
		wantErr   error
		wantAfter time.Duration
	}{
		"silence is ErrSilent": {
			idle: 10 * time.Second, wantErr: stream.ErrSilent, wantAfter: 10 * time.Second,
		},
		"a heartbeat comment re-arms the idle timer": {
			steps: []step{beat(9 * time.Second), beat(9 * time.Second)}, idle: 10 * time.Second,
			want: "attempt attempt", wantErr: stream.ErrSilent, wantAfter: 28 * time.Second,
		},
		"any line re-arms it": {
			steps: []step{{9 * time.Second, ": hi\n"}, {9 * time.Second, "retry: 1\n"}, {9 * time.Second, "\n"}}, idle: 10 * time.Second,
			wantErr: stream.ErrSilent, wantAfter: 37 * time.Second,
		},
		"half a line does not": {
			steps: []step{{9 * time.Second, "data: {"}}, idle: 10 * time.Second,
			wantErr: stream.ErrSilent, wantAfter: 10 * time.Second,
		},
		"silence after tokens": {
			steps: []step{{time.Second, data("a")}}, idle: 10 * time.Second,
			want: "data", wantErr: stream.ErrSilent, wantAfter: 11 * time.Second,
		},
		"silence after a finish reason is the end of a whole answer": {
			steps: []step{{time.Second, data("a") + fin}}, idle: 10 * time.Second,
			want: "data data", wantErr: io.EOF, wantAfter: 11 * time.Second,
		},
		"the context's end is the context's error behind a finish reason, too": {
			steps: []step{{time.Second, data("a") + fin}}, idle: 10 * time.Second, ceiling: 5 * time.Second,
			want: "data data", wantErr: context.DeadlineExceeded, wantAfter: 5 * time.Second,
		},
		"the context's end is the context's error, heartbeats or not": {
			steps: []step{beat(9 * time.Second), beat(9 * time.Second), beat(9 * time.Second)}, idle: 10 * time.Second,
			ceiling: 20 * time.Second, want: "attempt attempt", wantErr: context.DeadlineExceeded, wantAfter: 20 * time.Second,
		},
		"silence before the ceiling is silence": {
			idle: 10 * time.Second, ceiling: 10*time.Second + 1, wantErr: stream.ErrSilent, wantAfter: 10 * time.Second,
		},
		"both at once is the context's error": {
			idle: 10 * time.Second, ceiling: 10 * time.Second, wantErr: context.DeadlineExceeded, wantAfter: 10 * time.Second,
		},
		"without a bound only the context ends it": {
			steps: []step{{time.Hour, data("a")}}, ceiling: 3 * time.Hour,
			want: "data", wantErr: context.DeadlineExceeded, wantAfter: 3 * time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.ceiling > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.ceiling)
					defer cancel()
				}
				body, w := io.Pipe()
				var server sync.WaitGroup
				defer server.Wait()
				server.Go(func() { play(w, tc.steps) })
				begin := time.Now()
				got, err := drain(response(200, "text/event-stream", body).open(ctx, stream.Options{Idle: tc.idle}))
				if got != tc.want || !errors.Is(err, tc.wantErr) {
					t.Errorf("%q and %v, want %q and %v", got, err, tc.want, tc.wantErr)
				}
				if after := time.Since(begin); after != tc.wantAfter {
					t.Errorf("after %v, want %v", after, tc.wantAfter)
				}
			})
		})
	}
}

func TestReaderBoundsTheSilenceOfAJSONBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		var server sync.WaitGroup
		defer server.Wait()
		server.Go(func() { play(w, []step{{9 * time.Second, "{"}, {9 * time.Second, `"choices"`}}) })
		begin := time.Now()
		r := response(200, "application/json", body).open(t.Context(), stream.Options{Idle: 10 * time.Second})
		if _, err := r.Next(); !errors.Is(err, stream.ErrSilent) || time.Since(begin) != 28*time.Second {
			t.Errorf("error %v after %v", err, time.Since(begin))
		}
	})
}

func TestReaderSilenceAndCeilingAreDifferentSentences(t *testing.T) {
	if stream.ErrSilent.Error() == context.DeadlineExceeded.Error() || errors.Is(stream.ErrSilent, context.DeadlineExceeded) {
		t.Error("a caller cannot tell them apart")
	}
}

// readFunc is a body.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// endingContext ends behind the first look at it, without a word.
type endingContext struct {
	context.Context
	asked    chan struct{}
	err      error
	deadline time.Time
	looks    int
}

func (c *endingContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *endingContext) Err() error {
	if c.looks++; c.looks == 1 {
		close(c.asked)
		return nil
	}
	return c.err
}

// The context's end goes before what its end brings about, and before what came with it.
func TestReaderTellsTheContextsEndFirst(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every synctest bubble
	for name, tc := range map[string]struct {
		ctx  endingContext
		want error
	}{
		"a body that fails because of it":          {endingContext{err: context.Canceled}, context.Canceled},
		"a body that fails before it is announced": {endingContext{deadline: begin}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.ctx.Context, tc.ctx.asked = t.Context(), make(chan struct{})
				r := response(200, "text/event-stream", readFunc(func([]byte) (int, error) {
					<-tc.ctx.asked
					return 0, errors.New("cut")
				})).open(&tc.ctx, stream.Options{})
				if _, err := r.Next(); !errors.Is(err, tc.want) {
					t.Error(err)
				}
			})
		})
	}
	t.Run("data that had come before it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := events(data("a")+done).open(ctx, stream.Options{})
			synctest.Wait()
			cancel()
			if ev, err := r.Next(); !errors.Is(err, context.Canceled) {
				t.Errorf("%q, %v", ev.Data, err)
			}
		})
	})
}

func TestReaderCloseEndsANextThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, w := io.Pipe()
		r := response(200, "text/event-stream", body).open(t.Context(), stream.Options{})
		ended := make(chan error)
		go func() {
			_, err := r.Next()
			ended <- err
		}()
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("error %v, want one that is not the end of an answer", err)
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("the server is not told")
		}
	})
}

func TestCollect(t *testing.T) {
	for name, tc := range map[string]struct {
		resp     answer
		want     string
		watched  int
		wantErr  error
		wantCode string
	}{
		"a stream":                 {resp: events(attempt + data("a") + data("b") + fin + done), want: "ab", watched: 4, wantErr: nil},
		"one JSON body":            {resp: response(200, "application/json", strings.NewReader(`{"choices":[{"message":{"content":"ab"},"finish_reason":"stop"}]}`)), want: "ab", watched: 1},
		"a stream that is cut":     {resp: events(data("a") + data("b")), want: "ab", watched: 2, wantErr: stream.ErrIncomplete},
		"a stream with an error":   {resp: events(data("a") + `data: {"error":{"code":"stream_idle"}}` + "\n\n"), want: "a", watched: 1, wantCode: "stream_idle"},
		"a stream without choices": {resp: events(done), wantErr: stream.ErrNoChoices},
	} {
		t.Run(name, func(t *testing.T) {
			watched := 0
			got, err := tc.resp.open(t.Context(), stream.Options{}).Collect(func(stream.Event) { watched++ })
			var told *stream.Error
			if tc.wantCode != "" && (!errors.As(err, &told) || told.Code != tc.wantCode) || tc.wantCode == "" && !errors.Is(err, tc.wantErr) {
				t.Errorf("error %v", err)
			}
			if tc.want == "" {
				if got != nil {
					t.Errorf("completion %+v", got)
				}
				return
			}
			if text := got.Choices[0].Message.Text(); text != tc.want || watched != tc.watched {
				t.Errorf("%q with %d events, want %q with %d", text, watched, tc.want, tc.watched)
			}
		})
	}
}

func TestReaderTellsTheServerThatItGaveUp(t *testing.T) {
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, attempt)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := drain(stream.Open(t.Context(), resp, stream.Options{Idle: 50 * time.Millisecond}))
	if got != "attempt" || !errors.Is(err, stream.ErrSilent) {
		t.Errorf("%q and %v", got, err)
	}
	<-left
}
