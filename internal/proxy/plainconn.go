package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// plainConn is a connection of plain. One goroutine uses it at a time; closing it from another one ends what that does.
type plainConn struct {
	pool *plain
	addr string
	nc   net.Conn
	br   *bufio.Reader // of the connection itself
	room int64         // what may still be read of a header, in bytes; below 0 there is no limit

	answered bool // a byte of the current answer came
	since    time.Time
}

// writers are buffers for requests.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, plainWrite) }}

// Read reads from the connection on behalf of br.
func (c *plainConn) Read(p []byte) (int, error) {
	switch {
	case c.room == 0:
		return 0, errHeaderTooLarge
	case c.room > 0 && int64(len(p)) > c.room:
		p = p[:c.room]
	}
	n, err := c.nc.Read(p)
	if n > 0 {
		c.answered = true
		c.room -= min(int64(n), max(c.room, 0))
	}
	return n, err
}

// roundTrip sends a request and returns its answer, whose body gives the connection back at its end. The end of the
// request's context closes the connection, until then.
func (c *plainConn) roundTrip(r *http.Request) (*http.Response, error) {
	c.answered = false
	stop := context.AfterFunc(r.Context(), func() { c.nc.Close() })
	errWrite := c.write(r)
	// A backend may refuse before it has read everything: its answer counts, not that the rest could not be written.
	resp, err := c.readHead(r)
	if err != nil {
		stop()
		c.nc.Close()
		return nil, errors.Join(errWrite, err)
	}
	again := errWrite == nil && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	resp.Request = nil // a stream may last; its request need not
	resp.Body = &plainBody{body: resp.Body, conn: c, stop: stop, again: again}
	return resp, nil
}

func (c *plainConn) write(r *http.Request) error {
	bw := writers.Get().(*bufio.Writer)
	bw.Reset(c.nc)
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

// plainBody is the body of an answer. Close may be called while another goroutine reads: the read ends.
type plainBody struct {
	body  io.Reader
	conn  *plainConn
	stop  func() bool // ends the watch over the request's context; false when it has closed the connection
	again bool        // the connection is good for another request after the body's end
	ended atomic.Bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil {
		b.end(err == io.EOF) // a wrapped EOF is none
	}
	return n, err
}

// Close closes the connection, unless the body has come to its end.
func (b *plainBody) Close() error {
	b.end(false)
	return nil
}

// end gives the connection back where the answer is whole and nothing came behind it.
func (b *plainBody) end(whole bool) {
	if b.ended.Swap(true) {
		return
	}
	if b.stop() && whole && b.again && b.conn.br.Buffered() == 0 {
		b.conn.pool.put(b.conn)
		return
	}
	b.conn.nc.Close()
}
