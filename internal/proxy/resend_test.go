package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// C11: a backend that closes idle connections at the very time at which the next request comes. Whoever wins the race,
// nobody is told of it.
func TestRaceForAnIdleConnection(t *testing.T) {
	for scheme, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		for name, body := range sizes {
			t.Run(scheme+", "+name, func(t *testing.T) {
				t.Parallel()
				const idle = 2 * time.Millisecond
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(w, whole)
				}))
				s.Config.IdleTimeout = idle
				start(s)
				defer s.Close()
				route := newRoute(says(t), says(t, status(200, "", whole)))
				route.Chain[0].BaseURL, route.Chain[0].TLS = s.URL, &table.TLS{SkipVerify: true}
				r := newRig(t, route)
				for i := range 30 {
					if got := r.post(body); got.status != 200 || got.header.Get("X-Spillway-Backend") != "a" || got.header.Get("X-Spillway-Attempts") != "1" {
						t.Fatalf("request %d: %d %v", i, got.status, got.header)
					}
					<-time.After(idle + time.Duration(i%5-2)*idle/10)
				}
				if learnedBy(r.breakers, "a") != clean {
					t.Errorf("breaker %+v", learnedBy(r.breakers, "a"))
				}
			})
		}
	}
}

// bare is a backend without HTTP: it gets each connection as it comes.
func bare(t *testing.T, serve func(n int, conn net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serve(n, conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}

// readRequest reads one request from a connection.
func readRequest(in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// An answer that has begun is never asked for again, however little of it came.
func TestNoSecondRequestBehindTheFirstByte(t *testing.T) {
	for name, body := range sizes {
		t.Run(name, func(t *testing.T) {
			asked := make(chan int, 4)
			url := bare(t, func(n int, conn net.Conn) {
				for in := bufio.NewReader(conn); readRequest(in); {
					asked <- n
					if len(asked) > 1 {
						_, _ = io.WriteString(conn, "H")
						return
					}
					_, _ = io.WriteString(conn, status(200, "", whole))
				}
			})
			route := newRoute(says(t), says(t, status(200, "", whole)))
			route.Chain[0].BaseURL = url
			r := newRig(t, route)
			for _, want := range []string{"a", "b"} {
				if got := r.post(body); got.status != 200 || got.header.Get("X-Spillway-Backend") != want {
					t.Errorf("%d %v, want an answer of %s", got.status, got.header, want)
				}
			}
			if len(asked) != 2 {
				t.Errorf("a was asked %d times", len(asked))
			}
			if learnedBy(r.breakers, "a") != failedOnce {
				t.Errorf("breaker %+v", learnedBy(r.breakers, "a"))
			}
		})
	}
}

// A backend may answer before it has read the body, and never read it.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	bodies := map[string]string{"a large request": `{"model":"ns/m","x":"` + strings.Repeat("x", 20<<20) + `"}`}
	for name, body := range sizes {
		bodies[name] = body
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			url := bare(t, func(_ int, conn net.Conn) { // what is unread makes the end a reset
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, status(413, "Connection: close\r\n", `{"error":{"message":"too large","code":"their_code"}}`))
				}
			})
			route := newRoute(says(t), says(t, status(200, "", whole)))
			route.Chain[0].BaseURL = url
			r := newRig(t, route)
			if got := r.post(body); got.status != 413 || !strings.Contains(got.body, "their_code") {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
		t.Run(name+", never", func(t *testing.T) {
			hold := make(chan struct{})
			url := bare(t, func(_ int, conn net.Conn) {
				in := bufio.NewReader(conn)
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				_, _ = io.WriteString(conn, status(413, "", `{"error":{"message":"too large","code":"their_code"}}`))
				<-hold
			})
			defer close(hold)
			route := newRoute(says(t), says(t, status(200, "", whole)))
			route.Chain[0].BaseURL = url
			r := newRig(t, route)
			if got := r.post(body); got.status != 413 || !strings.Contains(got.body, "their_code") {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}
