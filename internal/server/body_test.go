package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

const testStall = 100 * time.Millisecond

// bodyServer runs a handler behind dropSlowBodies with a short stall.
func bodyServer(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(dropSlowBodies(handler, testStall))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestSlowBodyEndsTheRead(t *testing.T) {
	ended := make(chan error, 1)
	addr := bodyServer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	conn := dial(t, addr)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	if err := <-ended; err == nil {
		t.Error("the read of a stalled body ended without an error")
	}
	if _, err := io.ReadAll(conn); err != nil { // ends only when the server closes
		t.Error(err)
	}
}

func TestSlowBodyThatNobodyReadsEndsToo(t *testing.T) {
	addr := bodyServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
	conn := dial(t, addr)
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
}

// deadlines notes those that are set.
type deadlines struct {
	http.ResponseWriter
	last time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.last = t
	return nil
}

func TestDeadlinesOfABody(t *testing.T) {
	cases := map[string]struct {
		piece int           // bytes of each read
		every time.Duration // between reads
		want  []time.Duration
	}{
		"a body that comes fast has a stall for each piece":     {10 << 10, time.Second, []time.Duration{bodyStall, time.Second + bodyStall, 2*time.Second + bodyStall}},
		"one that drips has what its bytes are worth in all":    {1 << 10, 20 * time.Second, []time.Duration{bodyStall, bodyStall + time.Second, bodyStall + 2*time.Second}},
		"one that brings nothing has one stall and no more":     {0, 10 * time.Second, []time.Duration{bodyStall, bodyStall, bodyStall}},
		"one at the slowest average that is let pass, for ever": {1 << 10, time.Second, []time.Duration{bodyStall, bodyStall + time.Second, bodyStall + 2*time.Second}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := io.LimitReader(zeros{}, int64(tc.piece*len(tc.want)))
				conn, began := &deadlines{}, time.Now()
				b := &guardedBody{body: io.NopCloser(in), conn: http.NewResponseController(conn), stall: bodyStall, began: began}
				for i, want := range tc.want {
					b.arm()
					if got := conn.last.Sub(began); got != want {
						t.Errorf("deadline of read %d: %s, want %s", i+1, got, want)
					}
					if tc.piece > 0 {
						_, _ = b.Read(make([]byte, tc.piece))
					}
					time.Sleep(tc.every)
				}
				_, err := b.Read(make([]byte, 1))
				b.arm()
				if !errors.Is(err, io.EOF) || !conn.last.IsZero() {
					t.Errorf("behind the end (%v) the deadline is %v", err, conn.last)
				}
			})
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Whoever asks before it sends a body, or has far too much of it, is answered without it.
func TestRefusalsDoNotWaitForTheBody(t *testing.T) {
	cases := map[string]string{
		"a body with a length that waits to be asked for": "Expect: 100-continue\r\nContent-Length: 100\r\n",
		"a body in chunks that waits to be asked for":     "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n",
		"a body that is large":                            "Content-Length: 1000000000\r\n",
	}
	for name, lines := range cases {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(dropSlowBodies(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnsupportedMediaType)
			}), time.Minute))
			defer s.Close()
			conn := dial(t, s.Listener.Addr().String())
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnsupportedMediaType || !resp.Close {
				t.Errorf("status %d, the connection ends: %v", resp.StatusCode, resp.Close)
			}
		})
	}
}

func TestDeadlineOfABodyDoesNotReachTheAnswer(t *testing.T) {
	cases := map[string]string{
		"a body with a length": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
		"a body in chunks":     "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"no body":              "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	}
	for name, request := range cases {
		t.Run(name, func(t *testing.T) {
			addr := bodyServer(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				select {
				case <-time.After(3 * testStall): // a stream that takes its time
					fmt.Fprint(w, "whole")
				case <-r.Context().Done():
				}
			})
			if got := exchange(t, dial(t, addr), request); got != "whole" {
				t.Errorf("answer = %q, want it whole", got)
			}
		})
	}
}

func exchange(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	fmt.Fprint(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
