package load

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/test/bench/mock"
)

// serve returns the address of a server that ends with the test.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func request(t *testing.T, addr, model string, stream Stream) *Request {
	t.Helper()
	r, err := NewRequest(addr, model, stream)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequestsStayOnThisMachine(t *testing.T) {
	for _, addr := range []string{"192.0.2.1:80", "example.com:80", "", "127.0.0.1"} {
		if _, err := NewRequest(addr, "unary", 0); !errors.Is(err, errNotLoopback) {
			t.Errorf("NewRequest(%q) = %v, want errNotLoopback", addr, err)
		}
	}
}

func TestOnceTellsWholeAnswersFromOthers(t *testing.T) {
	const chunk = `data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	const finish = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	cases := map[string]struct {
		stream  Stream
		status  int
		body    string
		wantErr string
	}{
		"a completion":                     {body: `{"choices":[{"finish_reason":"stop"}]}`},
		"a body that is none":              {body: `{}`, wantErr: "not a completion"},
		"an error":                         {status: 503, body: `{}`, wantErr: "status 503"},
		"a stream":                         {stream: 2, body: chunk + chunk + finish + "data: [DONE]\n\n"},
		"a stream with too few chunks":     {stream: 2, body: chunk + finish + "data: [DONE]\n\n", wantErr: "broken stream: 1 chunks, finish true, done true"},
		"a stream without a finish reason": {stream: 1, body: chunk + "data: [DONE]\n\n", wantErr: "broken stream: 1 chunks, finish false, done true"},
		"a stream without [DONE]":          {stream: 1, body: chunk + finish, wantErr: "broken stream: 1 chunks, finish true, done false"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(max(tc.status, 200))
				_, _ = w.Write([]byte(tc.body))
			}))
			_, err := Once(request(t, addr, "m", tc.stream), time.Minute)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswerShorterThanItsLengthIsAnError(t *testing.T) {
	addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
		_ = buf.Flush()
	}))
	if _, err := Once(request(t, addr, "m", 0), time.Minute); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("error = %v, want one about the length", err)
	}
}

// run is short: the tests look at what is counted, not at how much.
func run(measured *int) Run {
	return Run{Conns: 4, Rate: 200, Warmup: 50 * time.Millisecond, Duration: 200 * time.Millisecond, Measure: func() func() {
		*measured++
		return func() { *measured++ }
	}}
}

func TestClosedCountsWholeAnswers(t *testing.T) {
	measured := 0
	tally := Closed(t.Context(), request(t, serve(t, new(mock.Backend)), "unary", 0), run(&measured))
	if tally.OK() == 0 || tally.Failed() != 0 || measured != 2 {
		t.Errorf("%d ok, errors %v, measured %d times; want some, none, begin and end", tally.OK(), tally.Errors(), measured)
	}
}

func TestOpenCountsEveryRequestThatIsDue(t *testing.T) {
	cases := map[string]struct {
		model          string
		stream         Stream
		wantOK, wantKO int
	}{
		"answers":         {model: "unary", wantOK: 40},
		"streams":         {model: "s3x1", stream: 3, wantOK: 40},
		"broken streams":  {model: "s3x1", stream: 4, wantKO: 40},
		"refused request": {model: "nothing", wantKO: 40},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			measured := 0
			tally := Open(t.Context(), request(t, serve(t, new(mock.Backend)), tc.model, tc.stream), run(&measured))
			if diff := cmp.Diff([]int{tc.wantOK, tc.wantKO, 2}, []int{tally.OK(), tally.Failed(), measured}); diff != "" {
				t.Errorf("ok, failed, measured (-want +got):\n%s%v", diff, tally.Errors())
			}
		})
	}
}

func TestHeldStreamsEndWithRelease(t *testing.T) {
	held := Hold(t.Context(), request(t, serve(t, new(mock.Backend)), "s1000x1000", 1), 20, 0)
	held.Release()
	if held.Live != 20 || held.Failed != 0 {
		t.Errorf("live %d, failed %d; want 20 and 0", held.Live, held.Failed)
	}
}

func TestLeaveHangsUpOnceToldTo(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http watches the connection once the body is read
		close(arrived)
		<-r.Context().Done()
		close(left)
	}))
	if _, err := Leave(request(t, addr, "unary", 0), func() error { <-arrived; return nil }); err != nil {
		t.Fatal(err)
	}
	<-left
}

func TestRefusedConnectionIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if _, err := Once(request(t, listener.Addr().String(), "unary", 0), time.Minute); err == nil {
		t.Error("no error")
	}
}

func TestQuantilesAreWithinOnePercent(t *testing.T) {
	var h Hist
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: time.Second} {
		if got := h.Quantile(q); got < want*99/100 || got > want*101/100 {
			t.Errorf("quantile %v = %v, want about %v", q, got, want)
		}
	}
}
