package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wait lets time pass; it is over early when ctx is.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func TestCallersThatSayNothingAreDropped(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePair(t, cert, key, "first")
	cases := map[string]struct {
		tls  bool
		said string
	}{
		"nothing at all":                {false, ""},
		"half a line":                   {false, "GET / HT"},
		"half a header":                 {false, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: y"},
		"nothing instead of a hello":    {true, ""},
		"half a hello":                  {true, "\x16\x03\x01\x02\x00\x01"},
		"a request where TLS is spoken": {true, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request was served") }, func(c *Config) {
				c.readHeader = testStall
				if tc.tls {
					c.TLSCert, c.TLSKey = cert, key
				}
			})
			conn := dial(t, s.Addr())
			fmt.Fprint(conn, tc.said)
			if _, err := io.ReadAll(conn); err != nil { // ends only when the server closes
				t.Error(err)
			}
		})
	}
}

func TestHeadersAreBoundedInSizeAndNumber(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(r.Header["X-Many"])) }, nil)
	many := func(n int) func(http.Header) {
		return func(h http.Header) {
			for i := range n {
				h.Add("X-Many", fmt.Sprint(i))
			}
		}
	}
	cases := map[string]struct {
		fill       func(http.Header)
		wantStatus int
	}{
		"an ordinary one":      {many(3), 200},
		"a hundred fields":     {many(100), 200},
		"one field too many":   {many(maxHeaderFields + 1), 431},
		"one that is too long": {func(h http.Header) { h.Set("X-Large", strings.Repeat("x", 2*maxHeaderBytes)) }, 431},
		"many small ones, together too long": {func(h http.Header) {
			for i := range 200 {
				h.Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1024))
			}
		}, 431},
	}
	for protocol, set := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		for name, tc := range cases {
			t.Run(protocol+", "+name, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr(), nil)
				if err != nil {
					t.Fatal(err)
				}
				tc.fill(req.Header)
				resp, err := client(t, set).Do(req)
				if err != nil && protocol == "HTTP/2" && tc.wantStatus != http.StatusOK {
					return // the server announces its limit, and ends a connection that does not keep it
				}
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != tc.wantStatus {
					t.Errorf("status %d, want %d", resp.StatusCode, tc.wantStatus)
				}
			})
		}
	}
}

// trickle is a body that comes piece by piece, with a pause after each. It ends as it says, or when the server has had enough.
type trickle struct {
	ctx   context.Context
	piece []byte
	pause time.Duration
	left  int
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	wait(b.ctx, b.pause)
	return copy(p, b.piece), nil
}

func TestBodiesMayBeSlowButMustMove(t *testing.T) {
	kilobyte := []byte(strings.Repeat("x", 1024))
	cases := map[string]struct {
		stall time.Duration
		body  trickle
		whole bool
	}{
		// It takes one and a half of the longest pause, and thirty times the least rate.
		"a slow one that moves":           {2 * time.Second, trickle{piece: kilobyte, pause: 30 * time.Millisecond, left: 100}, true},
		"one that stalls":                 {testStall, trickle{piece: kilobyte, pause: time.Hour, left: 2}, false},
		"one that moves a byte at a time": {testStall, trickle{piece: []byte("x"), pause: testStall / 10, left: 1 << 20}, false},
	}
	for protocol, set := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		for name, tc := range cases {
			t.Run(protocol+", "+name, func(t *testing.T) {
				t.Parallel()
				ended := make(chan error, 1)
				s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					ended <- err
				}, func(c *Config) { c.bodyStall = tc.stall })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body := tc.body
				body.ctx = ctx
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Addr(), &body)
					if err != nil {
						t.Error(err)
						return
					}
					if resp, err := client(t, set).Do(req); err == nil {
						resp.Body.Close()
					}
				}()
				err := <-ended
				if whole := err == nil; whole != tc.whole {
					t.Errorf("whole = %v, want %v: %v", whole, tc.whole, err)
				}
				if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the read ended with %v, want a deadline", err)
				}
				cancel()
				<-answered
			})
		}
	}
}

// Who is told that its body did not come in time is not waited for a second time.
func TestSlowBodyIsAnsweredAndItsConnectionClosed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
	}, func(c *Config) { c.bodyStall = testStall })
	conn := dial(t, s.Addr())
	began := time.Now()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), "\r\n\r\ntrue") {
		t.Errorf("answer %q, %v", answer, err)
	}
	if took := time.Since(began); took < testStall {
		t.Errorf("it took %s, less than a body may stall", took)
	}
}

// A caller of HTTP/2 that reads nothing more of its connection cannot even be told that its stream is reset.
func TestCallersThatReadNothingAreDropped(t *testing.T) {
	const (
		preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		settings = "\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x7f\xff\xff\xff" // any amount for each stream
		window   = "\x00\x00\x04\x08\x00\x00\x00\x00\x00" + "\x7f\x00\x00\x00"         // and for all of them
		get      = "\x00\x00\x06\x01\x05\x00\x00\x00\x01" + "\x82\x86\x84\x41\x01x"
	)
	ended := make(chan error, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(testStall))
		var err error
		for piece := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(piece)
		}
		ended <- err
	}, func(c *Config) { c.writeStall = testStall })
	fmt.Fprint(dial(t, s.Addr()), preface+settings+window+get)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the answer is still being written")
	}
}

func TestSlowCallersHoldNoConnectionOfOthers(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(c *Config) {
		c.MaxConnections, c.readHeader = 2, testStall
	})
	for range 4 {
		fmt.Fprint(dial(t, s.Addr()), "GET / HTTP/1.1\r\n")
	}
	ask(t, dial(t, s.Addr())) // comes when those before it have been dropped
}

func TestTLSPairIsRotatedUnderOpenConnections(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePair(t, cert, key, "first")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }, func(c *Config) {
		c.TLSCert, c.TLSKey = cert, key
	})
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			handshake := func() (*tls.Conn, string) {
				conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
				if err != nil {
					t.Fatal(err)
				}
				state := conn.ConnectionState()
				if state.NegotiatedProtocol != protocol {
					t.Errorf("protocol %q, want %q", state.NegotiatedProtocol, protocol)
				}
				return conn, state.PeerCertificates[0].Subject.CommonName
			}
			kept, before := handshake()
			defer kept.Close()
			writePair(t, cert, key, protocol)
			for after := before; after != protocol; {
				var conn *tls.Conn
				conn, after = handshake()
				conn.Close()
				wait(t.Context(), keyPairCheck/20)
				if t.Context().Err() != nil {
					t.Fatal("the new certificate was never served")
				}
			}
			if protocol == "http/1.1" && ask(t, kept).StatusCode != http.StatusOK {
				t.Error("a connection from before the rotation is not served")
			}
		})
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	writePair(t, cert, key, "first")
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	if err == nil {
		conn.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// An answer may take as long as it likes: none of the limits above is one of the whole exchange.
func TestNoLimitCoversAnAnswer(t *testing.T) {
	for protocol, set := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		t.Run(protocol, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for range 10 {
					fmt.Fprint(w, ".")
					_ = http.NewResponseController(w).Flush()
					wait(t.Context(), testStall)
				}
			}, func(c *Config) { c.readHeader, c.bodyStall = 3*testStall, 3*testStall })
			resp, err := client(t, set).Post("http://"+s.Addr(), "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(bufio.NewReader(resp.Body))
			if diff := cmp.Diff("..........", string(got)); diff != "" || err != nil {
				t.Errorf("answer, %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
