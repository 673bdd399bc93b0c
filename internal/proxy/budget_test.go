package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// bubble is a proxy on a fake clock: its backends are pipes within the process.
type bubble struct {
	proxy    *Proxy
	breakers *breaker.Registry
	metrics  *prometheus.Registry

	mu     sync.Mutex
	asked  []string // backends that were asked by callers,
	probes []string // and by the proxy itself
}

const (
	silence    = "" // a backend that reads the request and never answers
	goodAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n" + `{"choices":[{"message":{"content":"hi"},"finish_reason":1}]}`
	oneToken   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + `data: {"choices":[{"delta":{"content":"hi"}}]}` + "\n\n"
)

// pauseMark stands before and after a duration in what a backend says: it pauses there.
const pauseMark = "\x00"

var breakerFailed = breaker.Result{Kind: breaker.Failed}

// newBubble makes a route whose backends a, b, ... each say what is given and then nothing more.
func newBubble(t *testing.T, says []string, change func(*table.Route)) *bubble {
	route := &table.Route{Namespace: "ns", Name: "m", Model: "ns/m", Heartbeat: table.Heartbeat{CommitAfter: time.Hour, Form: table.HeartbeatLine},
		PreferHeader: table.PreferHonor, WhenAllOpen: table.AllOpenTry, ResponseModel: table.ModelPhysical,
		Timeouts: table.Timeouts{Connect: probeConnect}}
	said := map[string]string{}
	for i, text := range says {
		name := string(rune('a' + i))
		said[name+":80"] = text
		route.Chain = append(route.Chain, table.Backend{ID: table.BackendID(name), Name: name, BaseURL: "http://" + name + "/v1", Model: "m",
			Failure: table.Failure{Threshold: 5, Cooldown: time.Minute}, Saturation: table.Saturation{Threshold: 2, Cooldown: time.Minute}})
	}
	change(route)
	registry, log, store := prometheus.NewRegistry(), slog.New(slog.DiscardHandler), table.NewStore()
	b := &bubble{breakers: breaker.New(breaker.Options{}), metrics: registry}
	store.Set(table.New([]*table.Route{route}))
	b.breakers.Apply(store.Load())
	b.proxy = New(Config{Store: store, Breakers: b.breakers, Admission: admission.New(admission.Options{}),
		Metrics: telemetry.NewProxy(registry), AccessLog: telemetry.NewAccessLog(io.Discard), Log: log, Version: "test"})
	tr, err := b.proxy.transports.get(&route.Chain[0], route.Timeouts.Connect)
	if err != nil {
		t.Fatal(err)
	}
	var backends sync.WaitGroup
	tr.plain.dial = func(_ context.Context, _, addr string) (net.Conn, error) {
		near, far := net.Pipe()
		backends.Go(func() { b.answer(far, addr, said[addr]) })
		return near, nil
	}
	t.Cleanup(func() {
		b.proxy.Close()
		backends.Wait()
	})
	return b
}

// answer reads a request, says something and waits until the proxy leaves.
func (b *bubble) answer(conn net.Conn, addr, text string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	r, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	body, _ := io.ReadAll(r.Body)
	list := &b.asked
	if strings.Contains(string(body), `"ping"`) {
		list = &b.probes
	}
	b.mu.Lock()
	*list = append(*list, strings.TrimSuffix(addr, ":80"))
	b.mu.Unlock()
	for i, piece := range strings.Split(text, pauseMark) {
		if i%2 == 0 {
			_, _ = io.WriteString(conn, piece) // nothing, for silence
			continue
		}
		d, _ := time.ParseDuration(piece)
		<-time.After(d)
	}
	_, _ = io.Copy(io.Discard, in)
}

// ask sends one request and returns the answer, and how long it took.
func (b *bubble) ask(ctx context.Context, stream bool, header ...string) (*httptest.ResponseRecorder, time.Duration) {
	return b.send(ctx, strings.NewReader(fmt.Sprintf(`{"model":"ns/m","stream":%v,"messages":[]}`, stream)), header...)
}

// send is ask with a body that is given.
func (b *bubble) send(ctx context.Context, body io.Reader, header ...string) (*httptest.ResponseRecorder, time.Duration) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", body)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w, began := httptest.NewRecorder(), time.Now()
	handle(func() { b.proxy.Handler().ServeHTTP(w, r) })
	return w, time.Since(began).Truncate(10 * time.Millisecond) // deadlines of connections are rounded up
}

// handle calls a handler as net/http does, whose connection it may cut.
func handle(handler func()) {
	defer func() {
		if fault := recover(); fault != nil && fault != http.ErrAbortHandler { //nolint:errorlint // the value itself is how a handler cuts the connection of one who left
			panic(fault)
		}
	}()
	handler()
}

// attemptsOf lists the attempts that an error tells of.
func attemptsOf(t *testing.T, body string) string {
	var envelope struct {
		Error struct {
			Code     string
			Attempts []struct{ Backend, Class string }
		}
	}
	if _, event, is := strings.Cut(body, "data: {\"error\""); is {
		body = "{\"error\"" + event
	}
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		t.Fatalf("%v: %q", err, body)
	}
	said := envelope.Error.Code + ":"
	for _, a := range envelope.Error.Attempts {
		said += " " + a.Backend + " " + a.Class
	}
	return said
}

// A budget covers everything, and a tenth of it is kept for each backend that may have to follow.
func TestBudget(t *testing.T) {
	none := func(*table.Route) {}
	total := func(d time.Duration) func(*table.Route) { return func(r *table.Route) { r.Timeouts.Request = d } }
	cases := map[string]struct {
		says       []string
		change     func(*table.Route)
		stream     bool
		header     []string
		wantStatus int
		wantError  string
		wantAfter  time.Duration
		wantServed string // backend and reason
	}{
		"the last resort is reached within it": {
			says: []string{silence, goodAnswer}, change: total(10 * time.Second),
			wantStatus: 200, wantAfter: 9 * time.Second, wantServed: "b spilled"},
		"and with three, each has its turn": {
			says: []string{silence, silence, goodAnswer}, change: total(10 * time.Second),
			wantStatus: 200, wantAfter: 9 * time.Second, wantServed: "c spilled"},
		"when it is spent, the caller is told": {
			says: []string{silence, silence}, change: none, header: []string{"X-Request-Timeout-Ms", "2000"},
			wantStatus: 504, wantError: "request_deadline_exceeded: a out_of_share b deadline", wantAfter: 2 * time.Second, wantServed: "b spilled"},
		"slowAfter is the backend's fault, whatever its share": {
			says: []string{silence, silence}, change: func(r *table.Route) {
				r.Timeouts.Request = 10 * time.Second
				r.Chain[0].Saturation.NonStreamingSlowAfter = 3 * time.Second
			},
			wantStatus: 504, wantError: "request_deadline_exceeded: a saturated b deadline", wantAfter: 10 * time.Second, wantServed: "b saturated"},
		"a retry does not begin when its pause is longer than what is left": {
			says: []string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}"}, change: func(r *table.Route) {
				r.Timeouts.Request = 10 * time.Second
				r.Retry = table.Retry{Attempts: 5, Backoff: 4 * time.Second}
			},
			wantStatus: 502, wantError: "upstream_error: a failed a failed a failed", wantAfter: 8 * time.Second, wantServed: "a first"},
		"nor when its pause takes of what is kept for the next": {
			says: []string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}", goodAnswer}, change: func(r *table.Route) {
				r.Timeouts.Request = 10 * time.Second
				r.Retry = table.Retry{Attempts: 5, Backoff: 4750 * time.Millisecond}
			},
			wantStatus: 200, wantAfter: 4750 * time.Millisecond, wantServed: "b failed"},
		"nor in what is kept for the next, however short its pause": {
			says: []string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{", goodAnswer}, change: func(r *table.Route) {
				r.Timeouts.Request = 3 * time.Second
				r.Retry = table.Retry{Attempts: 5}
			},
			wantStatus: 200, wantAfter: 2700 * time.Millisecond, wantServed: "b failed"},
		"the rest of an error is waited for no longer, and is no silence": {
			says: []string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{"}, change: func(r *table.Route) {
				r.Timeouts.Request = 3 * time.Second
				r.Chain[0].Saturation.NonStreamingSlowAfter = time.Second
			},
			wantStatus: 504, wantError: "request_deadline_exceeded: a deadline", wantAfter: 3 * time.Second, wantServed: "a first"},
		"nor does it take what is kept for the next": {
			says: []string{"HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{", goodAnswer}, change: total(3 * time.Second),
			wantStatus: 200, wantAfter: 2700 * time.Millisecond, wantServed: "b failed"},
		"within an answer it ends the stream": {
			says: []string{oneToken}, change: none, stream: true, header: []string{"X-Request-Timeout-Ms", "100"},
			wantStatus: 200, wantError: "request_deadline_exceeded: a deadline", wantAfter: 100 * time.Millisecond, wantServed: "a first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, tc.change)
				w, after := b.ask(t.Context(), tc.stream, tc.header...)
				if w.Code != tc.wantStatus || after != tc.wantAfter {
					t.Errorf("status %d after %s, want %d after %s: %s", w.Code, after, tc.wantStatus, tc.wantAfter, w.Body)
				}
				if got := w.Header().Get("X-Spillway-Backend") + " " + w.Header().Get("X-Spillway-Reason"); got != tc.wantServed {
					t.Errorf("served by %q, want %q", got, tc.wantServed)
				}
				if tc.wantError != "" {
					if diff := cmp.Diff(tc.wantError, attemptsOf(t, w.Body.String())); diff != "" {
						t.Errorf("error (-want +got):\n%s", diff)
					}
				}
				if strings.Contains(w.Body.String(), "[DONE]") {
					t.Error("an error was followed by [DONE]")
				}
				if spent := strings.Contains(w.Body.String(), "no complete answer within "+tc.wantAfter.String()+", the request's whole time"); spent != strings.HasPrefix(tc.wantError, "request_deadline_exceeded") {
					t.Errorf("message of %s", w.Body)
				}
				for _, rec := range b.breakers.Records() {
					if slow := strings.Contains(tc.wantError, "saturated"); rec.Saturations != 0 && !slow {
						t.Errorf("the end of the time was held against a backend: %+v", rec)
					}
				}
			})
		})
	}
}

// late is the start of a body that takes its time.
type late time.Duration

func (l late) Read([]byte) (int, error) {
	<-time.After(time.Duration(l))
	return 0, io.EOF
}

// However long the body takes, a point in time stays where it is.
func TestDeadlineThatIsAPointInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{silence}, func(*table.Route) {})
		b.proxy.cfg.Now = func() time.Time { return time.Now().AddDate(20, 0, 0) } // a bubble begins too early for points in time
		body := io.MultiReader(late(2*time.Second), strings.NewReader(`{"model":"ns/m"}`))
		ends := strconv.FormatInt(b.proxy.cfg.Now().Add(3*time.Second).UnixMilli(), 10)
		w, after := b.send(t.Context(), body, headerDeadline, ends)
		if w.Code != http.StatusGatewayTimeout || after != 3*time.Second {
			t.Errorf("%d after %s, want the end after 3s: %s", w.Code, after, w.Body)
		}
	})
}

// Impatient callers must not hide a silent backend: what ends early for reasons of its own is neutral, and has the backend
// asked once.
func TestSuspicion(t *testing.T) {
	slow := func(d time.Duration) func(*table.Route) {
		return func(r *table.Route) { r.Chain[0].Saturation.SlowAfter = d }
	}
	cases := map[string]struct {
		says        []string
		change      func(*table.Route)
		whole       bool          // no stream is asked for
		leave       time.Duration // of the caller; 0: it stays
		budget      string
		wantProbes  []string
		wantSilence int // counted against a when the probe has waited for slowAfter
	}{
		"a caller that leaves after 5 s": {
			says: []string{silence}, change: slow(time.Minute), leave: breaker.SuspicionAfter, wantProbes: []string{"a"}, wantSilence: 1},
		"not one that leaves before": {
			says: []string{silence}, change: slow(time.Minute), leave: breaker.SuspicionAfter - 20*time.Millisecond},
		"not one that leaves after slowAfter, which is counted as such": {
			says: []string{silence}, change: slow(6 * time.Second), leave: 7 * time.Second, wantSilence: 1},
		"a share of the budget that ends": {
			says: []string{silence, oneToken}, change: slow(time.Minute), budget: "7000", wantProbes: []string{"a"}, wantSilence: 1},
		"a budget that ends": {
			says: []string{silence}, change: slow(time.Minute), budget: "7000", wantProbes: []string{"a"}, wantSilence: 1},
		"a caller that leaves an answer that has no limit of its own": {
			says: []string{silence}, change: slow(time.Minute), whole: true, leave: 6 * time.Second, wantProbes: []string{"a"}, wantSilence: 1},
		"not a backend that has told that it failed": {
			says: []string{pauseMark + "6s" + pauseMark + "HTTP/1.1 500 x\r\nContent-Length: 2\r\n\r\n{}"}, change: slow(time.Minute)},
		"not a share that is shorter than 5 s": {
			says: []string{silence, oneToken}, change: slow(time.Minute), budget: "5000"},
		"not where the first token has come": {
			says: []string{oneToken}, change: slow(time.Minute), leave: 7 * time.Second},
		"not a backend without slowAfter": {
			says: []string{silence}, change: slow(0), leave: 7 * time.Second},
		"not a backend that a pin rests": {
			says: []string{silence, silence}, leave: 7 * time.Second, change: func(r *table.Route) {
				slow(time.Minute)(r)
				r.Chain[1].Saturation.SlowAfter = time.Minute
				now := time.Now()
				r.Pins = []table.Pin{{Name: "p", Backend: "b", Mode: table.PinAvoid, StartsAt: now, ExpiresAt: now.Add(6 * time.Second)},
					{Name: "q", Backend: "a", Mode: table.PinAvoid, StartsAt: now.Add(6 * time.Second), ExpiresAt: now.Add(time.Hour)}}
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, tc.says, tc.change)
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { b.breakers.Run(ctx, b.proxy) })
				callers, leave := context.WithCancel(t.Context())
				if tc.leave > 0 {
					time.AfterFunc(tc.leave, leave)
				}
				var header []string
				if tc.budget != "" {
					header = []string{"X-Request-Timeout-Ms", tc.budget}
				}
				_, _ = b.ask(callers, !tc.whole, header...)
				leave()
				<-time.After(2 * time.Minute)
				stop()
				running.Wait()
				b.mu.Lock()
				defer b.mu.Unlock()
				if diff := cmp.Diff(tc.wantProbes, b.probes); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				silences := 0
				for _, rec := range b.breakers.Records() {
					silences += rec.Saturations
				}
				if silences != tc.wantSilence {
					t.Errorf("%d silences are counted, want %d", silences, tc.wantSilence)
				}
			})
		})
	}
}
