package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wire is a backend that answers each connection by a script: one answer for each request. A script's end closes the
// connection; the answer hang leaves it open without a word.
type wire struct {
	addr  string
	conns chan net.Conn
}

const hang = "hang"

func newWire(t *testing.T, scripts ...[]string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: listener.Addr().String(), conns: make(chan net.Conn, len(scripts))}
	ended := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for _, script := range scripts {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			w.conns <- conn
			go play(conn, script)
		}
	}()
	return w
}

func play(conn net.Conn, script []string) {
	br := bufio.NewReader(conn)
	for _, answer := range script {
		r, err := http.ReadRequest(br)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if answer == hang {
			_, _ = io.Copy(io.Discard, br) // until the other side closes
			break
		}
		_, _ = io.WriteString(conn, answer)
	}
	conn.Close()
}

func newPlain(t *testing.T) *plain {
	p := &plain{dial: (&net.Dialer{}).DialContext}
	t.Cleanup(p.close)
	return p
}

func (w *wire) request(context.Context) *http.Request {
	const body = `{"model":"m"}`
	return &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: w.addr, Path: "/v1/chat/completions"},
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// upstream is one request for p, on behalf of somebody who waits until ctx ends.
func (w *wire) upstream(t *testing.T, ctx context.Context) *upstream {
	var background sync.WaitGroup
	t.Cleanup(background.Wait)
	return &upstream{waiter: prober{ctx}, request: w.request, background: &background}
}

// roundTrip is that of upstream, through p alone.
func (w *wire) roundTrip(u *upstream, p *plain) (*http.Response, error) {
	err := p.roundTrip(u, w.request(u.context()))
	return u.resp, err
}

// ask sends one request and returns "STATUS BODY" or the error's words.
func (w *wire) ask(t *testing.T, p *plain) string {
	t.Helper()
	u := w.upstream(t, t.Context())
	defer u.release(false)
	resp, err := w.roundTrip(u, p)
	if err != nil {
		return describe(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Sprintf("%d %s, %s", resp.StatusCode, body, describe(err))
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

func (p *plain) idling() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conns := range p.idle {
		n += len(conns)
	}
	return n
}

func TestPlainKeepsConnectionsThatAreGood(t *testing.T) {
	const ok, early = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	cases := map[string]struct {
		answer   string
		want     string
		wantKept bool
	}{
		"a body with a length":             {answer: ok, want: "200 ok", wantKept: true},
		"a body in chunks":                 {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: "200 ok", wantKept: true},
		"a body in chunks with a trailer":  {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", want: "200 ok", wantKept: true},
		"no body":                          {answer: "HTTP/1.1 204 No Content\r\n\r\n", want: "204 ", wantKept: true},
		"an error":                         {answer: "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", want: "503 busy", wantKept: true},
		"1xx answers before it":            {answer: early + "HTTP/1.1 100 Continue\r\n\r\n" + ok, want: "200 ok", wantKept: true},
		"too many 1xx answers":             {answer: strings.Repeat(early, maxInformational+1) + ok, want: "transport error"},
		"a body up to the connection's":    {answer: "HTTP/1.1 200 OK\r\n\r\nok", want: "200 ok"},
		"Connection: close":                {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", want: "200 ok"},
		"HTTP/1.0":                         {answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", want: "200 ok"},
		"bytes behind the answer":          {answer: ok + "HTTP/1.1 200 OK\r\n", want: "200 ok"},
		"a protocol that nobody asked for": {answer: "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", want: "101 "},
		"a body that is cut":               {answer: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", want: "200 ok, connection closed early"},
		"a header that is cut":             {answer: "HTTP/1.1 200 OK\r\nContent-Le", want: "transport error"},
		"a header larger than the limit":   {answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxResponseHeader) + "\r\n\r\n", want: "transport error"},
		"no HTTP":                          {answer: "SSH-2.0-OpenSSH_9.2\r\n\r\n", want: "transport error"},
		"both a length and chunks":         {answer: "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: "200 ok", wantKept: true},
		"two lengths":                      {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", want: "transport error"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, p := newWire(t, []string{tc.answer}), newPlain(t)
			if diff := cmp.Diff(tc.want, w.ask(t, p)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if kept := p.idling() == 1; kept != tc.wantKept {
				t.Errorf("kept = %t, want %t", kept, tc.wantKept)
			}
		})
	}
}

const answered = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst"

func TestPlainUsesAConnectionAgain(t *testing.T) {
	second := strings.Replace(answered, "first", "again", 1)
	w, p := newWire(t, []string{answered, second}), newPlain(t)
	if got := []string{w.ask(t, p), w.ask(t, p)}; !cmp.Equal(got, []string{"200 first", "200 again"}) {
		t.Errorf("answers = %q", got)
	}
}

func TestPlainLeavesConnectionsThatSaySomethingUnasked(t *testing.T) {
	w, p := newWire(t, []string{answered, hang}, []string{strings.Replace(answered, "first", "fresh", 1)}), newPlain(t)
	w.ask(t, p)
	fmt.Fprint(<-w.conns, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
	c := p.idle[w.addr][0]
	for reusable(c.nc) { // until it has arrived; looking takes one byte of it
	}
	if got := w.ask(t, p); got != "200 fresh" {
		t.Errorf("answer = %q, want the one of a fresh connection", got)
	}
}

func TestPlainSendsAgainWhereAReusedConnectionDies(t *testing.T) {
	w, p := newWire(t, []string{answered, ""}, []string{strings.Replace(answered, "first", "fresh", 1)}), newPlain(t)
	if got := []string{w.ask(t, p), w.ask(t, p)}; !cmp.Equal(got, []string{"200 first", "200 fresh"}) {
		t.Errorf("answers = %q, want the second from a fresh connection", got)
	}
}

func TestPlainSendsNotAgainWhereAnAnswerBegan(t *testing.T) {
	w, p := newWire(t, []string{answered, "HTTP/1.1 2"}, []string{answered}), newPlain(t)
	w.ask(t, p)
	if got := w.ask(t, p); got != "transport error" {
		t.Errorf("answer = %q, want an error", got)
	}
}

func TestPlainEndsWithItsContext(t *testing.T) {
	cases := map[string]string{
		"before the header": hang,
		"within the body":   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			w, p := newWire(t, []string{answer, hang}), newPlain(t)
			ctx, cancel := context.WithCancel(t.Context())
			seen := make(chan error, 1)
			u := w.upstream(t, ctx)
			go func() {
				resp, err := w.roundTrip(u, p)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
				}
				seen <- err
			}()
			<-w.conns
			cancel()
			if err := <-seen; !errors.Is(err, context.Canceled) {
				t.Errorf("error = %v, want the one of the waiter", err)
			}
			u.release(false)
			if p.idling() != 0 {
				t.Error("the connection was kept")
			}
		})
	}
}

func TestPlainTakesAnAnswerThatCameBeforeTheBodyWasRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = bufio.NewReader(conn).ReadString('\n')
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge")
		_, _ = io.Copy(io.Discard, conn)
	}()
	w, p := &wire{addr: listener.Addr().String()}, newPlain(t)
	if got := w.ask(t, p); got != "413 large" {
		t.Errorf("answer = %q, want the refusal", got)
	}
}

func TestPlainClosesWhatIsIdleForLong(t *testing.T) {
	w, p := newWire(t, []string{answered, hang}), newPlain(t)
	w.ask(t, p)
	since := p.idle[w.addr][0].since
	p.reap(since.Add(idleFor - time.Second))
	if p.idling() != 1 {
		t.Error("closed too early")
	}
	p.reap(since.Add(idleFor))
	if p.idling() != 0 {
		t.Error("not closed in time")
	}
}

// The same without a hand on it: the clock closes, for as long as there is something to close, and from anew.
func TestPlainWatchesWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plain{}
		defer p.close()
		put := func() {
			ours, theirs := net.Pipe()
			_ = theirs.Close()
			p.put(&plainConn{pool: p, addr: "a", nc: ours})
		}
		for range 2 {
			put()
			time.Sleep(idleFor - time.Second)
			put()
			for after, want := range []int{1, 1, 0} {
				time.Sleep(idleFor / 2)
				synctest.Wait()
				if got := p.idling(); got != want {
					t.Errorf("%d idle after %d looks, want %d", got, after+1, want)
				}
			}
		}
	})
}

func TestPlainClosesAConnectionThatComesTooLate(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	late := make(chan struct{})
	p := &plain{dial: func(context.Context, string, string) (net.Conn, error) {
		<-late
		return ours, nil
	}}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := &wire{addr: "127.0.0.1:1"}
	u := w.upstream(t, ctx)
	if _, err := w.roundTrip(u, p); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	u.release(false)
	close(late)
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection was left open: %v", err)
	}
}

func TestPlainKeepsNothingOnceClosed(t *testing.T) {
	w, p := newWire(t, []string{answered, hang}, []string{answered, hang}), newPlain(t)
	w.ask(t, p)
	p.close()
	if got := w.ask(t, p); got != "200 first" || p.idling() != 0 {
		t.Errorf("answer = %q with %d idle, want it whole and none", got, p.idling())
	}
}

func TestPlainTakesSmallRequestsWithoutTLS(t *testing.T) {
	cases := map[string]struct {
		url  string
		size int64
		want bool
	}{
		"without TLS":       {url: "http://tower.lan:11434/v1", size: 100, want: true},
		"an IPv6 address":   {url: "http://[::1]:80/v1", size: 100, want: true},
		"over TLS":          {url: "https://api.example.com/v1", size: 100},
		"a large body":      {url: "http://tower.lan/v1", size: joinUpTo + 1},
		"a name to convert": {url: "http://türm.lan/v1", size: 100},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(tc.url)
			if err != nil {
				t.Fatal(err)
			}
			if got := new(plain).takes(&http.Request{URL: u, ContentLength: tc.size}); got != tc.want {
				t.Errorf("takes = %t, want %t", got, tc.want)
			}
		})
	}
}
