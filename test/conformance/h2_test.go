package conformance

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Frames of HTTP/2, as far as the scripts need them.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePush, framePing, frameGoAway = 0x0, 0x1, 0x3, 0x4, 0x5, 0x6, 0x7

	flagEndStream, flagAck, flagEndHeaders = 0x1, 0x1, 0x4

	h2Preface = 24 // bytes that a client begins with

	settingStreams, settingWindow = 0x3, 0x4
)

// h2Head is the header of a stream of events: status 200 and its type, as HPACK has them.
const h2Head = "\x88\x0f\x10\x11text/event-stream"

// framed is the backend's end of one connection of HTTP/2, in the hands of a script.
type framed struct {
	t    *testing.T
	n    int // which connection it is
	conn net.Conn
	last uint32 // the last stream that was asked on
}

// frame writes one frame.
func (f *framed) frame(kind, flags byte, stream uint32, payload string) {
	head := make([]byte, 9)
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = f.conn.Write(append(head, payload...)) // the proxy may have left
}

func number(n uint32) string { return string(binary.BigEndian.AppendUint32(nil, n)) }

func setting(name uint16, value uint32) string {
	return string(binary.BigEndian.AppendUint16(nil, name)) + number(value)
}

// head and data answer on the last stream.
func (f *framed) head()            { f.frame(frameHeaders, flagEndHeaders, f.last, h2Head) }
func (f *framed) data(text string) { f.frame(frameData, 0, f.last, text) }
func (f *framed) end()             { f.frame(frameData, flagEndStream, f.last, "") }

// reset ends the last stream with an error code.
func (f *framed) reset(code uint32) { f.frame(frameReset, 0, f.last, number(code)) }

// goAway says which stream is the last one that is served.
func (f *framed) goAway(last, code uint32) { f.frame(frameGoAway, 0, 0, number(last)+number(code)) }

// answers sends a whole answer.
func (f *framed) answers(text string) {
	f.head()
	f.data(c(text) + fin + done)
	f.end()
}

// read reads a frame, and answers what the protocol wants to have answered. It reports whether one came.
func (f *framed) read() (kind, flags byte, came bool) {
	head := make([]byte, 9)
	if _, err := io.ReadFull(f.conn, head); err != nil {
		return 0, 0, false
	}
	payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
	if _, err := io.ReadFull(f.conn, payload); err != nil {
		return 0, 0, false
	}
	kind, flags = head[3], head[4]
	switch {
	case kind == frameSettings && flags&flagAck == 0:
		f.frame(frameSettings, flagAck, 0, "")
	case kind == framePing && flags&flagAck == 0:
		f.frame(framePing, flagAck, 0, string(payload))
	case kind == frameHeaders || kind == frameData: // several begin at once before the client has read the settings
		f.last = binary.BigEndian.Uint32(head[5:])
	}
	return kind, flags, true
}

// header waits for the header of a request.
func (f *framed) header() (came bool) {
	for {
		if kind, _, came := f.read(); !came || kind == frameHeaders {
			return came
		}
	}
}

// next waits for a request, the body included.
func (f *framed) next() (came bool) {
	for {
		kind, flags, came := f.read()
		if !came || (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0 {
			return came
		}
	}
}

// inFrames is a backend that speaks HTTP/2 over TLS in frames. serve gets each connection; settings are what it begins with.
func inFrames(t *testing.T, settings string, serve func(f *framed)) backend {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	certificates := certified.TLS.Certificates
	certified.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	running.Go(func() {
		for n := 0; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				if _, err := io.CopyN(io.Discard, conn, h2Preface); err != nil {
					return
				}
				f := &framed{t: t, n: n, conn: conn}
				f.frame(frameSettings, 0, 0, settings)
				serve(f)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	u := &upstream{t: t, base: "https://" + ln.Addr().String() + "/v1"}
	return u.with("tls: {verify: None}")
}

// drain reads what comes until the proxy leaves.
func (f *framed) drain() { _, _ = io.Copy(io.Discard, f.conn) }

// What HTTP/2 has beyond HTTP/1.1, in the frames themselves: who is asked next, and how often.
func TestBackendsInFrames(t *testing.T) {
	const refused, internal, cancel, calm = 0x7, 0x2, 0x8, 0xb
	good, second := c("a")+fin+done, role+c("second")+fin+done
	// again answers one request and does something with the next one on the same connection; others have connections that are well.
	again := func(do func(f *framed)) func(f *framed) {
		return func(f *framed) {
			for i := 0; f.next(); i++ {
				if f.n == 0 && i == 1 && do != nil {
					do(f)
					continue
				}
				f.answers("a")
			}
		}
	}
	once := func(do func(f *framed)) func(f *framed) {
		return func(f *framed) {
			if f.next() {
				do(f)
			}
			f.drain()
		}
	}
	cases := map[string]struct {
		settings string
		serve    func(f *framed)
		before   bool   // one request comes before
		silent   bool   // nothing ever comes
		want     string // events; a prefix where it ends with the error
		conns    int    // 0: as many as it takes, by who is faster
	}{
		"C11 a stream that is refused is asked for anew":     {serve: again(func(f *framed) { f.reset(refused) }), before: true, want: good, conns: 2},
		"C11 so is one that the connection's end leaves out": {serve: again(func(f *framed) { f.goAway(1, calm) }), before: true, want: good, conns: 2},
		"C11 a stream that is reset has been asked for":      {serve: again(func(f *framed) { f.reset(internal) }), before: true, want: second, conns: 1},
		"so has one that is cancelled":                       {serve: again(func(f *framed) { f.reset(cancel) }), before: true, want: second, conns: 1},
		"so has one that is reset without a fault":           {serve: again(func(f *framed) { f.reset(0) }), before: true, want: second, conns: 1},
		"a first stream that is refused":                     {serve: once(func(f *framed) { f.reset(refused) }), want: second, conns: 1},
		"a connection that ends before it serves":            {serve: func(f *framed) { f.goAway(0, 0); f.drain() }, want: second},
		"a connection that ends with this stream": {serve: once(func(f *framed) {
			f.head()
			f.data(c("a"))
			f.goAway(f.last, 0)
			f.data(fin + done)
			f.end()
		}), want: good, conns: 1},
		"a reset behind the prelude":          {serve: once(func(f *framed) { f.head(); f.data(role); f.reset(internal) }), want: second, conns: 1},
		"a reset behind a token":              {serve: once(func(f *framed) { f.head(); f.data(c("a")); f.reset(internal) }), want: c("a") + `data: {"error":`, conns: 1},
		"a reset behind the finish":           {serve: once(func(f *framed) { f.head(); f.data(c("a") + fin); f.reset(internal) }), want: good, conns: 1},
		"a header without anything behind it": {serve: once(func(f *framed) { f.frame(frameHeaders, flagEndHeaders|flagEndStream, f.last, h2Head) }), want: second, conns: 1},
		"a push that nobody wanted":           {serve: once(func(f *framed) { f.frame(framePush, flagEndHeaders, f.last, number(2)+"\x82"); f.answers("a") }), want: second, conns: 1},
		"what is no frame":                    {serve: once(func(f *framed) { _, _ = io.WriteString(f.conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }), want: second, conns: 1},
		"no room for the request":             {settings: setting(settingWindow, 0), serve: func(f *framed) { f.drain() }, silent: true, want: second, conns: 1},
		"an answer to what had no room": {settings: setting(settingWindow, 0), serve: func(f *framed) {
			if !f.header() {
				return
			}
			f.frame(frameHeaders, flagEndHeaders|flagEndStream, f.last, "\x08\x03413")
			f.reset(0)
			f.drain()
		}, want: `"upstream_status":413`, conns: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int64
			a := inFrames(t, tc.settings, func(f *framed) { conns.Add(1); tc.serve(f) })
			set := settings{}
			if tc.silent {
				set["saturation"] = "{slowAfter: 3s, coldStartGrace: 0s}" // for the handshake, too
			}
			r := newRoute(t, set, a, well(t, "second").plain())
			if tc.before {
				if got := r.stream(); events(got.body) != good {
					t.Fatalf("the first request: %q", got.body)
				}
			}
			got := r.stream()
			text := events(got.body)
			if prefix, broken := strings.CutSuffix(tc.want, `data: {"error":`); broken {
				if said := got.said(t); said.Code != "stream_incomplete" || !strings.HasPrefix(text, tc.want) {
					t.Errorf("%+v behind %q: %q", said, prefix, text)
				}
			} else if text != tc.want && (strings.HasPrefix(tc.want, "data:") || !strings.Contains(text, tc.want)) {
				t.Errorf("%d %q, want %q", got.status, text, tc.want)
			}
			if attempts := got.header.Get("X-Spillway-Attempts"); (attempts == "2") != (tc.want == second) || tc.conns > 0 && int(conns.Load()) != tc.conns {
				t.Errorf("%s attempts over %d connections", attempts, conns.Load())
			}
		})
	}
	t.Run("one stream at a time", func(t *testing.T) {
		t.Parallel()
		a := inFrames(t, setting(settingStreams, 1), again(nil))
		r := newRoute(t, nil, a, well(t, "second").plain())
		var calls sync.WaitGroup
		for range 12 {
			calls.Go(func() {
				if got := r.stream(); events(got.body) != good {
					t.Errorf("%v %q", got.header, got.body)
				}
			})
		}
		calls.Wait()
	})
}
