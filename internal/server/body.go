package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// bodyStall is the longest pause in a request body.
	bodyStall = 30 * time.Second
	// bodyMinRate, in bytes per second, is the slowest average of a body once bodyStall has passed. It keeps a caller from
	// holding buffers for hours by sending one byte before each stall ends.
	bodyMinRate = 1 << 10
)

// dropSlowBodies gives each read of a request body a deadline. The deadline goes with the body's last byte, so that it
// never falls into the answer.
func dropSlowBodies(next http.Handler, stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		guard := &guardedBody{body: r.Body, conn: http.NewResponseController(w), stall: stall, began: time.Now()}
		// A body that the handler left unread is drained by net/http, and that must end too.
		defer guard.arm()
		// The body goes into a copy. By its own request's, net/http knows what it must not wait for before it answers: a body that
		// the caller holds back until it is asked for, and one that is too large to be read to its end.
		r = r.WithContext(r.Context())
		r.Body = guard
		next.ServeHTTP(w, r)
	})
}

type guardedBody struct {
	body  io.ReadCloser
	conn  *http.ResponseController
	stall time.Duration
	began time.Time
	read  int64
	ended bool
}

func (b *guardedBody) Read(p []byte) (int, error) {
	b.arm()
	n, err := b.body.Read(p)
	b.read += int64(n)
	if err != nil {
		b.ended = true // after a failure with its deadline, so that nobody waits for the rest
	}
	if errors.Is(err, io.EOF) {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *guardedBody) Close() error { return b.body.Close() }

// arm sets the deadline of the next read: one stall from now, or when the average rate would be too low, if that is
// earlier. An error means a connection that is gone, which the read will say itself.
func (b *guardedBody) arm() {
	if b.ended {
		return
	}
	deadline := time.Now().Add(b.stall)
	rate := b.began.Add(b.stall + time.Duration(b.read)*time.Second/bodyMinRate)
	if rate.Before(deadline) {
		deadline = rate
	}
	_ = b.conn.SetReadDeadline(deadline)
}
