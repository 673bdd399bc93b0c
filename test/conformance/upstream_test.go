package conformance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Shorthand of the field cases.
const (
	fin   = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
	role  = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}` + "\n\n"
	whole = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3}}`

	sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
)

// c is a chunk with content.
func c(text string) string {
	return chunk(`{"index":0,"delta":{"content":` + strconv.Quote(text) + `},"finish_reason":null}`)
}

// chunk is a chunk with the given choices.
func chunk(choices string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[` + choices + `]}` + "\n\n"
}

// status is a whole response.
func status(code int, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d Status\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", code, len(body), header, body)
}

// chunked is a piece of a body in the chunked coding; an empty one ends it.
func chunked(piece string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece) }

// patience bounds what must come; nothing is expected to take it.
const (
	patience = 20 * time.Second
	// grace is what a packet needs to arrive.
	grace = 50 * time.Millisecond
)

// received is one request as it arrived at a backend.
type received struct {
	method, target string
	header         http.Header
	length         int64
	trailer        http.Header
	body           string
}

// wire is the backend's end of one connection, in the hands of a script.
type wire struct {
	t    *testing.T
	conn net.Conn
	got  received
	gone chan struct{} // closed when the proxy has closed its end
	keep bool          // the connection takes another request when the script returns
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

// told waits a while and reports whether the script is to end: it was told to, or the proxy left.
func (w *wire) told(end <-chan struct{}, wait time.Duration) bool {
	select {
	case <-end:
		return true
	case <-w.gone:
		return true
	case <-time.After(wait):
		return false
	}
}

// silence waits until the proxy leaves.
func (w *wire) silence() {
	select {
	case <-w.gone:
	case <-time.After(patience):
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

// await goes on when told to, or when the proxy leaves.
func (w *wire) await(told <-chan struct{}) {
	select {
	case <-told:
	case <-w.gone:
	case <-time.After(patience):
		w.t.Error("the script was never told to go on")
	}
}

// upstream is a scripted backend on a real socket. Its script runs once per request, in order of arrival; the connection
// closes when it returns, unless it sets keep.
type upstream struct {
	t      *testing.T
	base   string // of a backend that is not scripted
	ln     net.Listener
	script func(n int, w *wire)
	done   sync.WaitGroup

	mu   sync.Mutex
	seen []received
	open map[net.Conn]bool
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
	t.Helper()
	return newUpstream(t, func(_ int, w *wire) { w.send(pieces...) })
}

// well is a backend that answers in the form that it is asked for.
func well(t *testing.T, text string) *upstream {
	t.Helper()
	return newUpstream(t, func(_ int, w *wire) {
		if strings.Contains(w.got.body, `"stream":true`) {
			w.send(sseHead, role, c(text), fin, done)
			return
		}
		w.send(status(200, "", strings.Replace(whole, "hi", text, 1)))
	})
}

func (u *upstream) accept() {
	for {
		conn, err := u.ln.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		u.open[conn] = true
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
	for u.request(conn, in) {
	}
}

// request takes one request and plays the script. It reports whether the connection takes another one.
func (u *upstream) request(conn net.Conn, in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return false
	}
	w := &wire{t: u.t, conn: conn, gone: make(chan struct{})}
	w.got = received{req.Method, req.RequestURI, req.Header, req.ContentLength, req.Trailer, string(body)}
	u.mu.Lock()
	n := len(u.seen)
	u.seen = append(u.seen, w.got)
	u.mu.Unlock()
	peeked := make(chan struct{})
	u.done.Go(func() {
		defer close(peeked)
		if _, err := in.Peek(1); err != nil {
			close(w.gone)
		}
	})
	u.script(n, w)
	if !w.keep {
		return false
	}
	<-peeked
	return true
}

func (u *upstream) url() string {
	if u.base != "" {
		return u.base
	}
	return "http://" + u.ln.Addr().String() + "/v1"
}

func (u *upstream) requests() []received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]received(nil), u.seen...)
}

func (u *upstream) count() int { return len(u.requests()) }

// waitFor waits for something that another goroutine or process brings about.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < patience; <-tick.C {
		if holds() {
			return
		}
	}
	t.Fatal("it never came: " + what)
}
