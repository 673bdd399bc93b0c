package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// stream writes "begin", then waits for its end: release ("end") or a cancelled context (its cause).
func stream(release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			fmt.Fprint(w, "short")
			return
		}
		fmt.Fprint(w, "begin ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
			fmt.Fprint(w, "end")
		case <-r.Context().Done():
			fmt.Fprint(w, context.Cause(r.Context()))
		}
	}
}

// begin opens a stream and returns the rest of it once "begin" was read.
func begin(t *testing.T, c *http.Client, s *running) io.Reader {
	t.Helper()
	resp, err := c.Get("http://" + s.Addr() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	r := bufio.NewReader(resp.Body)
	if word, err := r.ReadString(' '); err != nil || word != "begin " {
		t.Fatalf("first word = %q, %v", word, err)
	}
	return r
}

func TestDrainServesNewWorkAndLetsStreamsEnd(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			drained, delay := make(chan struct{}), make(chan time.Time)
			s := serve(t, stream(release), func(c *Config) {
				c.DrainDelay, c.DrainTimeout = time.Second, time.Hour
				c.OnDrain = func() { close(drained) }
				c.after = func(time.Duration) <-chan time.Time { return delay }
			})
			rest := begin(t, client(t, protocol), s)
			kept := dial(t, s.Addr())
			if ask(t, kept).Close {
				t.Error("a connection was closed before the drain")
			}

			s.stop()
			<-drained
			if resp, body := get(t, client(t, http1), "http://"+s.AdminAddr()+"/readyz"); resp.StatusCode != 503 || body != "draining\n" {
				t.Errorf("readiness while draining = %d %q", resp.StatusCode, body)
			}
			if !ask(t, kept).Close {
				t.Error("an answer on a kept connection does not close it")
			}
			if resp, body := get(t, client(t, protocol), "http://"+s.Addr()+"/short"); body != "short" || protocolCloses(resp) != nil {
				t.Errorf("new work while draining = %q, %v", body, protocolCloses(resp))
			}
			close(delay)
			waitUntilRefused(t, s.Addr())
			close(release)
			if word, err := io.ReadAll(rest); err != nil || string(word) != "end" {
				t.Errorf("the running stream ended with %q, %v", word, err)
			}
			if err := <-s.done; err != nil {
				t.Error(err)
			}
		})
	}
}

// An answer that began before the drain could not tell its caller to go elsewhere. Who asks again the moment that it has ended
// must not be cut off.
func TestDrainServesWhoAsksAgainOnAConnectionThatWasNotTold(t *testing.T) {
	release := make(chan struct{})
	delay, linger := make(chan time.Time), make(chan time.Time)
	s := serve(t, stream(release), func(c *Config) {
		c.DrainDelay, c.DrainTimeout = time.Minute, time.Hour
		c.after = func(d time.Duration) <-chan time.Time {
			if d == time.Minute {
				return delay
			}
			return linger
		}
	})
	c := client(t, http1)
	resp, err := c.Get("http://" + s.Addr() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	s.stop()
	close(delay)
	waitUntilRefused(t, s.Addr())
	close(release)
	if words, err := io.ReadAll(resp.Body); err != nil || string(words) != "begin end" {
		t.Fatalf("the stream that was running = %q, %v", words, err)
	}
	next, body := get(t, c, "http://"+s.Addr()+"/short")
	if body != "short" || !next.Close {
		t.Errorf("the next request = %q, closes: %t", body, next.Close)
	}
	close(linger)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// protocolCloses says whether an HTTP/1.1 answer lacks the word that ends its connection. HTTP/2 has a frame for that.
func protocolCloses(resp *http.Response) error {
	if resp.ProtoMajor == 1 && !resp.Close {
		return errors.New("no Connection: close")
	}
	return nil
}

func waitUntilRefused(t *testing.T, addr string) {
	t.Helper()
	for {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		conn.Close()
		if t.Context().Err() != nil {
			t.Fatal("the listener did not close")
		}
	}
}

func TestDrainTimeoutEndsStreamsWithItsCause(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(nil), func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
			rest := begin(t, client(t, protocol), s)
			s.stop()
			if words, err := io.ReadAll(rest); err != nil || string(words) != ErrShutdown.Error() {
				t.Errorf("last words = %q, %v, want the cause", words, err)
			}
			if err := <-s.done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDrainIsBoundedWhenTheCallerDoesNotRead(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			returned := make(chan struct{})
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				defer close(returned)
				block := []byte(strings.Repeat("x", 1<<20))
				for {
					if _, err := w.Write(block); err != nil {
						<-time.After(20 * time.Millisecond) // it writes its records
						return
					}
				}
			}, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
			resp, err := client(t, protocol).Get("http://" + s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			s.stop()
			if err := <-s.done; err != nil {
				t.Error(err)
			}
			select {
			case <-returned:
			default:
				t.Error("the handler was not waited for")
			}
		})
	}
}

func TestIdleConnectionsDoNotHoldTheDrain(t *testing.T) {
	for name, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2": h2c} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(nil), func(c *Config) { c.DrainTimeout = time.Hour })
			get(t, client(t, protocol), "http://"+s.Addr()+"/short")
			s.stop()
			if err := <-s.done; err != nil {
				t.Error(err)
			}
		})
	}
}
