package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// plainConn is a connection of plain. One goroutine uses it at a time, that of the request; deadlines of the connection
// wake it for its waiter.
type plainConn struct {
	pool *plain
	addr string
	nc   net.Conn
	br   *bufio.Reader // of the connection itself
	room int64         // what may still be read of a header, in bytes; below 0 there is no limit

	up       *upstream   // whose request is on it
	watch    func() bool // ends the watch over the caller's context; nil where there is none
	armed    time.Time   // the deadline that is set, unless it has passed
	passed   bool
	left     bool // the waiter has ended the wait
	answered bool // a byte of the current answer came
	since    time.Time
}

// writers are buffers for requests.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, plainWrite) }}

// past is a deadline that ends any wait.
var past = time.Unix(1, 0)

// roundTrip sends a request and leaves its answer in u, whose body gives the connection back at its end. On an error the
// connection stays as it is: the backend is not to see its caller leave before that is known everywhere else.
func (c *plainConn) roundTrip(u *upstream, r *http.Request) error {
	c.up, u.conn = u, c
	c.answered, c.left = false, false
	c.watch = context.AfterFunc(u.context(), func() { _ = c.nc.SetDeadline(past) })
	errWrite := c.send(r)
	if c.left {
		return errWrite
	}
	// A backend may refuse before it has read everything: its answer counts, not that the rest could not be written.
	resp, err := c.readHead(r) //nolint:bodyclose // release does
	if err != nil {
		return errors.Join(errWrite, err)
	}
	again := errWrite == nil && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	resp.Request = nil // a stream may last; its request need not
	resp.Body = &plainBody{body: resp.Body, conn: c, again: again}
	u.resp = resp
	return nil
}

func (c *plainConn) send(r *http.Request) error {
	bw := writers.Get().(*bufio.Writer)
	bw.Reset(c)
	err := r.Write(bw)
	if err == nil {
		err = bw.Flush()
	}
	bw.Reset(nil)
	writers.Put(bw)
	return err
}

// readHead reads up to the end of the header of the answer that counts.
func (c *plainConn) readHead(r *http.Request) (*http.Response, error) {
	c.room = maxResponseHeader
	for range maxInformational + 1 {
		resp, err := http.ReadResponse(c.br, r)
		if err != nil && c.room == 0 {
			err = errHeaderTooLarge // whatever net/http makes of a header without its end
		}
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			c.room = -1
			return resp, nil
		}
	}
	return nil, errInformational
}

// Read reads from the connection on behalf of br.
func (c *plainConn) Read(p []byte) (n int, err error) {
	switch {
	case c.room == 0:
		return 0, errHeaderTooLarge
	case c.room > 0 && int64(len(p)) > c.room:
		p = p[:c.room]
	}
	for again := true; again; {
		if err = c.arm(); err != nil {
			return 0, err
		}
		n, err = c.nc.Read(p)
		again, err = c.onDeadline(err)
	}
	if n > 0 {
		c.answered = true
		c.room -= min(int64(n), max(c.room, 0))
	}
	return n, err
}

// Write writes a request.
func (c *plainConn) Write(p []byte) (n int, err error) {
	for again := true; again; {
		if err = c.arm(); err != nil {
			return n, err
		}
		var m int
		m, err = c.nc.Write(p[n:])
		n += m
		again, err = c.onDeadline(err)
	}
	return n, err
}

// arm sets the deadline at which the waiter wants to be woken, where that has changed. The watch over the caller sets one
// too, at any moment: where this came after it, the context has ended.
func (c *plainConn) arm() error {
	due := c.up.due()
	if !c.passed && due.Equal(c.armed) {
		return nil
	}
	_ = c.nc.SetDeadline(due) // where it cannot be set, the connection is gone
	c.armed, c.passed = due, false
	if c.up.context().Err() != nil {
		_, err := c.onDeadline(os.ErrDeadlineExceeded)
		return err
	}
	return nil
}

// onDeadline wakes the waiter where err says that its time has come. again says that the wait goes on.
func (c *plainConn) onDeadline(err error) (again bool, _ error) {
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false, err
	}
	c.passed = true
	err = c.up.wake(time.Now())
	c.left = err != nil
	return err == nil, err
}

// unwatch ends the watch over the caller. It reports whether the caller was there until then.
func (c *plainConn) unwatch() bool {
	there := c.watch == nil || c.watch()
	c.watch = nil
	return there
}

func (c *plainConn) close() {
	c.unwatch()
	_ = c.nc.Close()
}

// plainBody is the body of an answer.
type plainBody struct {
	body  io.Reader
	conn  *plainConn
	again bool // the connection is good for another request after the body's end
	ended bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == io.EOF && !b.ended { // a wrapped EOF is none
		b.end()
	}
	return n, err
}

// end gives the connection back, where the answer came to its end and nothing behind it.
func (b *plainBody) end() {
	b.ended = true
	c := b.conn
	c.up.conn, c.up = nil, nil
	if !c.unwatch() || !b.again || c.br.Buffered() > 0 {
		c.close()
		return
	}
	c.pool.put(c)
}

// Close closes the connection, unless the body has come to its end.
func (b *plainBody) Close() error {
	if !b.ended {
		b.ended = true
		b.conn.close()
	}
	return nil
}
