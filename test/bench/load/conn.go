package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// dialTimeout is generous: a full backlog of the listener is part of what is measured, a missing one is an error at once.
const dialTimeout = 5 * time.Second

// errStale says that a kept connection had been closed before it was used again.
var errStale = errors.New("kept connection was closed")

// conn is one keep-alive HTTP/1.1 connection.
type conn struct {
	addr  string
	nc    net.Conn
	br    *bufio.Reader // of the connection
	lines *bufio.Reader // of a body
	buf   []byte        // for a body that is no stream
	used  bool          // it has carried a request
}

func newConn(addr string) *conn {
	return &conn{addr: addr, br: bufio.NewReaderSize(nil, 8<<10), lines: bufio.NewReaderSize(nil, 8<<10), buf: make([]byte, 4<<10)}
}

func (c *conn) close() {
	if c.nc != nil {
		c.nc.Close()
		c.nc = nil
	}
}

func (c *conn) dial() error {
	nc, err := net.DialTimeout("tcp", c.addr, dialTimeout)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	c.nc, c.used = nc, false
	c.br.Reset(nc)
	return nil
}

// do sends a request and reads the whole answer. onToken is called when the first token arrives; it may be nil.
func (c *conn) do(r *Request, onToken func()) (Answer, error) {
	for {
		if c.nc == nil {
			if err := c.dial(); err != nil {
				return Answer{}, err
			}
		}
		reused := c.used
		c.used = true
		a, err := c.exchange(r, onToken)
		if err == nil {
			return a, nil
		}
		c.close()
		if !reused || !errors.Is(err, errStale) {
			return a, err
		}
	}
}

func (c *conn) exchange(r *Request, onToken func()) (Answer, error) {
	var a Answer
	if _, err := c.nc.Write(r.bytes); err != nil {
		return a, errors.Join(errStale, err)
	}
	h, err := c.readHead()
	if err != nil {
		return a, err
	}
	a.Status = h.status
	body, limited := h.body(c.br)
	if r.stream {
		c.lines.Reset(body)
		err = a.readEvents(c.lines, onToken)
	} else {
		err = a.readBody(body, c.buf)
	}
	if err != nil {
		return a, fmt.Errorf("body: %w", err)
	}
	if limited != nil && limited.N > 0 {
		return a, errors.New("body: shorter than its Content-Length")
	}
	if h.chunked {
		if err := c.skipTrailer(); err != nil {
			return a, err
		}
	}
	a.Ended = time.Now()
	if h.closing {
		c.close()
	}
	return a, nil
}

// head is what the status line and the headers say about the body.
type head struct {
	status           int
	length           int64
	chunked, closing bool
}

func (c *conn) readHead() (head, error) {
	h := head{length: -1}
	line, err := c.br.ReadSlice('\n')
	if err != nil && len(line) == 0 {
		return h, errors.Join(errStale, err)
	}
	if err != nil || len(line) < len("HTTP/1.1 200") {
		return h, fmt.Errorf("status line %q: %w", line, err)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, fmt.Errorf("status line %q: %w", line, err)
	}
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return h, fmt.Errorf("header: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return h, nil
		}
		h.field(line)
	}
}

func (h *head) field(line []byte) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("content-length")):
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			h.length = n
		}
	case bytes.EqualFold(name, []byte("transfer-encoding")):
		h.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("connection")):
		h.closing = bytes.EqualFold(value, []byte("close"))
	}
}

// body returns a reader of the body as it is framed, and what limits it where a Content-Length does.
func (h *head) body(br *bufio.Reader) (io.Reader, *io.LimitedReader) {
	switch {
	case h.chunked:
		return httputil.NewChunkedReader(br), nil
	case h.length >= 0:
		limited := &io.LimitedReader{R: br, N: h.length}
		return limited, limited
	}
	h.closing = true
	return br, nil
}

func (c *conn) skipTrailer() error {
	for {
		line, err := c.br.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("trailer: %w", err)
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			return nil
		}
	}
}
