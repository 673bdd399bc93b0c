package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/spillway-dev/spillway/internal/table"
)

// framed is a backend in frames of HTTP/2, and the transport that asks it.
type framed struct {
	t      *testing.T
	tr     *transport
	url    string
	begins func(c *framedConn)                // as soon as the client has
	asked  func(c *framedConn, stream uint32) // once per whole request
	opened atomic.Int64
	conns  sync.Map // of *framedConn, by the client's address
}

// framedConn is the backend's end of one connection.
type framedConn struct {
	*http2.Framer
	writing sync.Mutex // where the test writes besides the backend
	n       int64      // how many came before it
	conn    *tls.Conn
	learned chan struct{} // closed once the client has answered a ping
}

func newFramed(t *testing.T, begins func(c *framedConn), asked func(c *framedConn, stream uint32)) *framed {
	t.Helper()
	config := &tls.Config{Certificates: testCertificates(), NextProtos: []string{"h2"}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &framed{t: t, url: "https://" + ln.Addr().String(), begins: begins, asked: asked,
		tr: mustGet(t, newTransports(t), &table.Backend{TLS: &table.TLS{SkipVerify: true}}, time.Minute)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			c := &framedConn{n: f.opened.Add(1) - 1, conn: tls.Server(nc, config), learned: make(chan struct{})}
			c.Framer = http2.NewFramer(c.conn, c.conn)
			f.conns.Store(nc.RemoteAddr().String(), c)
			running.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		f.conns.Range(func(_, c any) bool { return c.(*framedConn).conn.NetConn().Close() != nil || true })
		running.Wait()
	})
	return f
}

func (f *framed) serve(c *framedConn) {
	defer func() { _ = c.conn.Close() }()
	if _, err := io.CopyN(io.Discard, c.conn, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	f.begins(c)
	learned := sync.OnceFunc(func() { close(c.learned) })
	for {
		frame, err := c.ReadFrame()
		head := http2.FrameHeader{}
		if err == nil {
			head = frame.Header()
		}
		switch {
		case err != nil:
			return
		case head.Type == http2.FramePing && head.Flags.Has(http2.FlagPingAck):
			learned()
		case head.Type == http2.FrameData && head.Flags.Has(http2.FlagDataEndStream):
			f.asked(c, head.StreamID)
		}
	}
}

// ask sends a request. got is called each time that one of http.Transport's connections was chosen, before anything is sent there.
func (f *framed) ask(got func(c *framedConn, conn net.Conn)) error {
	ctx := httptrace.WithClientTrace(f.t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c, _ := f.conns.Load(info.Conn.LocalAddr().String())
		got(c.(*framedConn), info.Conn)
	}})
	resp, err := f.tr.roundTrip(ctx, func(ctx context.Context) *http.Request {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.url, io.NopCloser(strings.NewReader("{}")))
		r.ContentLength = 2
		return r
	})
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	return err
}

// allow says how many streams the client may open, and perhaps that it may open none after all.
func (c *framedConn) allow(streams uint32, andLeaves bool) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: streams})
	if andLeaves {
		_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
	}
	_ = c.WritePing(false, [8]byte{})
}

// Of many requests that chose one new connection, all but one learn that it has no stream for them.
func TestMoreRequestsThanStreams(t *testing.T) {
	const many = 12
	chose, first, others := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f := newFramed(t, func(c *framedConn) {
		if c.n > 0 {
			c.allow(many, false)
		}
	}, func(c *framedConn, stream uint32) {
		c.writing.Lock()
		defer c.writing.Unlock()
		_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("\x88"), EndHeaders: true, EndStream: true})
	})
	var crowded atomic.Pointer[framedConn]
	begin := func(gate chan struct{}) <-chan error {
		ended := make(chan error, 1)
		var once sync.Once // http.Transport itself may come back to a connection whose stream is free again
		go func() {
			ended <- f.ask(func(c *framedConn, _ net.Conn) {
				once.Do(func() {
					crowded.Store(c)
					chose <- struct{}{}
					<-gate
				})
			})
		}()
		<-chose
		return ended
	}
	oldest := begin(first)
	var rest [many - 1]<-chan error
	for i := range rest {
		rest[i] = begin(others)
	}
	crowded.Load().allow(1, false)
	<-crowded.Load().learned
	close(first) // the others hold what streams there are, and it cannot say that it came to a connection that had been used
	if err := <-oldest; err != nil {
		t.Errorf("the request that opened the connection: %v", err)
	}
	close(others)
	for _, ended := range rest {
		if err := <-ended; err != nil {
			t.Errorf("one that came to it: %v", err)
		}
	}
	if n := f.opened.Load(); n > many {
		t.Errorf("%d requests opened %d connections", many, n)
	}
}

// The request that opened a connection may be the one that finds no stream there: another may have come first.
func TestTheFirstRequestOfAConnectionFindsNoStream(t *testing.T) {
	for name, turnAway := range map[string]func(c *framedConn, stream uint32){
		"refused":         func(c *framedConn, stream uint32) { _ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
		"beyond the last": func(c *framedConn, stream uint32) { _ = c.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFramed(t, func(c *framedConn) { c.allow(100, false) }, func(c *framedConn, stream uint32) {
				if stream == 3 && c.n == 0 {
					turnAway(c, stream)
					return
				}
				_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("\x88"), EndHeaders: true, EndStream: true})
			})
			chose, gate, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- f.ask(func(*framedConn, net.Conn) {
					close(chose)
					<-gate
				})
			}()
			<-chose
			if err := f.ask(func(*framedConn, net.Conn) {}); err != nil {
				t.Errorf("the one that came first: %v", err)
			}
			close(gate)
			if err := <-ended; err != nil {
				t.Errorf("the one that opened the connection: %v", err)
			}
			if n := f.opened.Load(); n != 2 {
				t.Errorf("opened %d connections, want 2", n)
			}
		})
	}
}

// A new connection that breaks is a failed attempt, and a backend that does that to each is not asked for more and more of them.
func TestNewConnectionsThatEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(c *framedConn)
		lives bool // as far as one can see from below TLS
		want  int64
	}{
		"closed": {end: func(c *framedConn) { c.allow(1, false); _ = c.conn.CloseWrite() }, want: 1},
		"cut":    {end: func(c *framedConn) { c.allow(1, false); _ = c.conn.NetConn().(*net.TCPConn).CloseWrite() }, want: 1},
		"reset": {end: func(c *framedConn) {
			_ = c.conn.NetConn().(*net.TCPConn).SetLinger(0)
			_ = c.conn.NetConn().Close()
		}, want: 1},
		"announced": {end: func(c *framedConn) { c.allow(1, true) }, lives: true, want: 2},
		"without a single stream, then closed": {end: func(c *framedConn) {
			if c.allow(0, false); c.n > 0 {
				_ = c.conn.CloseWrite()
			}
		}, lives: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFramed(t, func(c *framedConn) {
				if c.n > 0 {
					tc.end(c)
				}
			}, func(*framedConn, uint32) {})
			err := f.ask(func(c *framedConn, conn net.Conn) {
				if c.n == 0 {
					tc.end(c)
				}
				if tc.lives {
					<-c.learned
				} else {
					<-beneath(conn).ended
				}
			})
			if err == nil {
				t.Error("an answer")
			}
			if n := f.opened.Load(); n != tc.want {
				t.Errorf("one request opened %d connections, want %d: %v", n, tc.want, err)
			}
		})
	}
}

// http.Transport opens connection after connection for a request where none has a stream for it.
func TestOneConnectionIsOpenedForARequest(t *testing.T) {
	f := newFramed(t, func(*framedConn) {}, nil)
	ctx := context.WithValue(t.Context(), dialed{}, new(atomic.Bool))
	for _, want := range []error{nil, errDialed} {
		conn, err := f.tr.pool.DialContext(ctx, "tcp", strings.TrimPrefix(f.url, "https://"))
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
