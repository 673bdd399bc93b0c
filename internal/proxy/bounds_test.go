package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/proxy"
)

// A stream for a caller that wants one body is put together in memory, so it has the limit of a body.
func TestStreamThatIsAssembledHasTheLimitOfABody(t *testing.T) {
	for name, tc := range map[string]struct {
		events int
		want   int
	}{"within it": {2, 200}, "beyond it": {40, 502}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRoute(says(t, sseHead, strings.Repeat(c("x"), tc.events), fin, done)), func(c *proxy.Config) { c.MaxAnswer = 2000 })
			if got := r.post(unary); got.status != tc.want {
				t.Errorf("status %d, body %s", got.status, got.body)
			}
		})
	}
}

func TestAnswerOverTheLimitIsToldFromABrokenOne(t *testing.T) {
	r := newRig(t, newRoute(says(t, status(200, "", whole+strings.Repeat(" ", 5000)))), func(c *proxy.Config) { c.MaxAnswer = 1000 })
	if got := r.post(unary); got.status != 502 {
		t.Errorf("status %d, body %s", got.status, got.body)
	}
	waitFor(t, func() bool { return strings.Contains(r.log.String(), "larger than the limit") })
}

// A write deadline stays with its connection. What comes on it later, of whatever kind, must not meet an old one.
func TestDeadlineOfAnAnswerDoesNotFallIntoTheNext(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for name, next := range map[string]string{
		"the model list":        "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
		"health":                "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"a wrong method":        "GET /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n",
		"an unknown path":       "GET /v1/none HTTP/1.1\r\nHost: x\r\n\r\n",
		"an unknown model":      "GET /v1/models/none HTTP/1.1\r\nHost: x\r\n\r\n",
		"a request":             post(unary),
		"a request that is bad": post(`{}`),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRoute(says(t, status(200, "", whole))), func(c *proxy.Config) { c.WriteTimeout = timeout })
			conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			for i, raw := range []string{post(unary), next} {
				if i > 0 {
					<-time.After(2 * timeout)
				}
				fmt.Fprint(conn, raw)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("answer %d: %v", i, err)
				}
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Errorf("answer %d: %v", i, err)
				}
				resp.Body.Close()
			}
		})
	}
}

// post is a raw request.
func post(body string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
