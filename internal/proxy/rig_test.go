package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Shorthand of the field cases.
const (
	fin   = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
	role  = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}` + "\n\n"
	whole = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`

	sseHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	streamed = `{"model":"ns/m","stream":true,"messages":[]}`
	unary    = `{"model":"ns/m","messages":[]}`
)

// c is a chunk with content.
func c(text string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":` + strconv.Quote(text) + `},"finish_reason":null}]}` + "\n\n"
}

// status is a whole response.
func status(code int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Length: %d\r\nContent-Type: application/json\r\n%s\r\n%s", code, len(body), header, body)
}

// received is one request as it arrived at a backend.
type received struct {
	method, target string
	header         http.Header
	length         int64
	body           string
}

// wire is the backend's end of one connection, in the hands of a script.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	gone chan struct{} // closed when the proxy has closed its end
}

// send writes raw bytes, each argument as one write.
func (w *wire) send(pieces ...string) {
	for _, piece := range pieces {
		if _, err := io.WriteString(w.conn, piece); err != nil {
			return // the proxy left
		}
	}
}

// pause lets time pass, unless the proxy leaves.
func (w *wire) pause(d time.Duration) {
	select {
	case <-w.gone:
	case <-time.After(d):
	}
}

// until waits for a test's word, or until the proxy leaves: a test that fails does not give it.
func (w *wire) until(word <-chan struct{}) {
	select {
	case <-word:
	case <-w.gone:
	}
}

// silence waits until the proxy leaves.
func (w *wire) silence() {
	select {
	case <-w.gone:
	case <-time.After(20 * time.Second):
		w.t.Error("the proxy did not leave a silent backend")
	}
}

// reset cuts the connection with a TCP reset.
func (w *wire) reset() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = w.conn.Close()
}

// upstream is a scripted backend on a real socket. Its script runs once per request, in order of arrival; the connection
// closes when it returns.
type upstream struct {
	t      *testing.T
	ln     net.Listener
	script func(n int, w *wire)
	done   sync.WaitGroup

	mu     sync.Mutex
	seen   []received
	open   map[net.Conn]bool
	closed bool
}

func newUpstream(t *testing.T, script func(n int, w *wire)) *upstream {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{t: t, ln: ln, script: script, open: map[net.Conn]bool{}}
	u.done.Go(u.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		u.mu.Lock()
		u.closed = true
		for conn := range u.open {
			_ = conn.Close()
		}
		u.mu.Unlock()
		u.done.Wait()
	})
	return u
}

// says is an upstream that sends the same to everybody.
func says(t *testing.T, pieces ...string) *upstream {
	return newUpstream(t, func(_ int, w *wire) { w.send(pieces...) })
}

func (u *upstream) accept() {
	for {
		conn, err := u.ln.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		if u.open[conn] = true; u.closed {
			_ = conn.Close()
		}
		u.mu.Unlock()
		u.done.Go(func() { u.serve(conn) })
	}
}

func (u *upstream) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		u.mu.Lock()
		delete(u.open, conn)
		u.mu.Unlock()
	}()
	in := bufio.NewReader(conn)
	req, err := http.ReadRequest(in)
	if err != nil {
		_, _ = io.Copy(io.Discard, in) // no HTTP: silence until the proxy leaves
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	u.mu.Lock()
	n := len(u.seen)
	u.seen = append(u.seen, received{req.Method, req.RequestURI, req.Header, req.ContentLength, string(body)})
	u.mu.Unlock()
	w := &wire{t: u.t, conn: conn, in: in, gone: make(chan struct{})}
	u.done.Go(func() {
		defer close(w.gone)
		_, _ = in.ReadByte()
	})
	u.script(n, w)
}

func (u *upstream) url() string { return "http://" + u.ln.Addr().String() + "/v1" }

func (u *upstream) requests() []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]received(nil), u.seen...)
}

func (u *upstream) count() int { return len(u.requests()) }

// rig is a proxy on a real socket in front of scripted backends a, b, c, ...
type rig struct {
	t        *testing.T
	route    *table.Route
	store    *table.Store
	breakers *breaker.Registry
	proxy    *proxy.Proxy
	server   *httptest.Server
	client   *http.Client
	metrics  *prometheus.Registry
	log      *syncBuffer
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newRoute has no limits but those that a test sets.
func newRoute(backends ...*upstream) *table.Route {
	r := &table.Route{Namespace: "ns", Name: "m", Model: "ns/m", Heartbeat: table.Heartbeat{CommitAfter: time.Minute, Form: table.HeartbeatLine},
		PreferHeader: table.PreferHonor, WhenAllOpen: table.AllOpenTry, ResponseModel: table.ModelPhysical,
		Timeouts: table.Timeouts{Connect: 5 * time.Second, Idle: 10 * time.Second}}
	for i, u := range backends {
		name := string(rune('a' + i))
		r.Chain = append(r.Chain, table.Backend{ID: table.BackendID(name), Name: name, BaseURL: u.url(), Model: "physical-" + name, Regime: "unknown",
			Failure:    table.Failure{Threshold: 5, Cooldown: time.Minute},
			Saturation: table.Saturation{Threshold: 2, Cooldown: time.Minute}, Probe: table.ProbeSynthetic})
	}
	return r
}

func newRig(t *testing.T, route *table.Route, change ...func(*proxy.Config)) *rig {
	t.Helper()
	r := &rig{t: t, route: route, store: table.NewStore(), breakers: breaker.New(breaker.Options{}), metrics: prometheus.NewRegistry(), log: &syncBuffer{}}
	r.store.Set(table.New([]*table.Route{route}))
	log := telemetry.NewLogger(r.log, slog.LevelDebug)
	cfg := proxy.Config{Store: r.store, Breakers: r.breakers, Admission: admission.New(admission.Options{}), Metrics: telemetry.NewProxy(r.metrics),
		AccessLog: telemetry.NewAccessLog(r.log), Log: log, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Version: "test"}
	for _, f := range change {
		f(&cfg)
	}
	r.proxy = proxy.New(cfg)
	r.server = httptest.NewServer(r.proxy.Handler())
	r.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(func() {
		if t.Failed() {
			r.server.CloseClientConnections() // Close would wait for requests that the test has not let end
		}
		r.client.CloseIdleConnections()
		r.server.Close()
		r.proxy.Close()
	})
	return r
}

// start sends a chat request and returns its response; header holds pairs of name and value.
func (r *rig) start(body string, header ...string) *http.Response {
	r.t.Helper()
	return r.send(http.MethodPost, "/v1/chat/completions", strings.NewReader(body), header)
}

// get sends a request without a body.
func (r *rig) get(method, path string, header ...string) answer {
	r.t.Helper()
	return finish(r.send(method, path, nil, header))
}

func (r *rig) send(method, path string, body io.Reader, header []string) *http.Response {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r *rig) post(body string, header ...string) answer {
	r.t.Helper()
	return finish(r.start(body, header...))
}

func finish(resp *http.Response) answer {
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

// beat is a comment in the form Line.
func beat(h stream.Heartbeat) string { return ": " + string(h.AppendJSON(nil)) + "\n" }

// events is a stream without its comments.
func events(stream string) string {
	var out strings.Builder
	for line := range strings.SplitAfterSeq(stream, "\n") {
		if !strings.HasPrefix(line, ":") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// waitFor waits for something that another goroutine brings about.
func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20_000 {
		if what() {
			return
		}
		<-tick.C
	}
	t.Fatal("it never came")
}
