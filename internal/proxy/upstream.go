package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
)

const (
	// readSize is the room for one read of a stream. A stream that waits holds one of them.
	readSize = 2 << 10
	// errorBodyLimit and errorBodyWait bound what is read of an answer that is no success: its status alone tells much.
	errorBodyLimit = 1 << 20
	errorBodyWait  = 5 * time.Second
	// drainLimit and drainWait bound what is read after a stream's last event, so that its connection can be used again.
	drainLimit = 64 << 10
	drainWait  = 250 * time.Millisecond
)

// errFault says that reading an answer met a mistake of this proxy.
var errFault = errors.New("fault while reading an answer")

// errAnswerTooLarge says that an answer that is read whole passed the limit.
var errAnswerTooLarge = errors.New("answer larger than the limit")

// part is a piece of a backend's answer, or its end.
type part struct {
	// resp is set with the first part of an answer: status and header. Its body belongs to the reader.
	resp *http.Response
	// arrived is when the header came.
	arrived time.Time
	// data is the whole body where whole is set, else bytes of a stream, which are given back with recycle.
	data  []byte
	whole bool
	// settled says that the status, which is no success, has told that there will be no token. The whole body follows, as
	// far as it comes soon.
	settled bool
	// err ends the answer; io.EOF ends a stream as it should.
	err error
}

// upstream is one request to a backend. A goroutine of its own sends it and reads the answer, and hands that over in
// parts, so that whoever waits for parts can wait for other things too. It ends when the answer does, or promptly when
// abandoned.
type upstream struct {
	transport *transport
	request   func(context.Context) *http.Request // a fresh one, with a body of its own
	limit     int64                               // of an answer that is read whole
	lease     *lease                              // of the same; whoever started the request releases it
	fault     func(panicked any)                  // reports a fault of ours

	parts  chan part
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when nobody takes parts any more and the rest is to be drained
}

// blank is what may stand before an answer of any shape.
const blank = " \t\r\n"

// buffers of readSize bytes.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// start sends the request. The running goroutine is counted in background.
func (u *upstream) start(background *sync.WaitGroup) {
	u.parts = make(chan part, 1)
	u.ended = make(chan struct{})
	u.ctx, u.cancel = context.WithCancel(context.Background())
	background.Go(u.run)
}

// abandon ends the request: the backend sees its caller leave.
func (u *upstream) abandon() { u.cancel() }

// drain lets the reader look for the end of an answer that is complete, briefly, so that the connection can be used again.
func (u *upstream) drain() {
	time.AfterFunc(drainWait, u.cancel)
	close(u.ended)
}

// recycle gives back the data of a part of a stream.
func (u *upstream) recycle(data []byte) {
	if cap(data) >= readSize {
		buffers.Put((*[readSize]byte)(data[:readSize]))
	}
}

func (u *upstream) run() {
	defer u.cancel()
	defer func() {
		// What one backend sends must not end the process for all others.
		if panicked := recover(); panicked != nil {
			u.fault(panicked)
			u.send(part{err: errFault})
		}
	}()
	resp, err := u.roundTrip()
	u.request = nil // it holds the body, and nothing is sent again from here on
	if err != nil {
		u.send(part{err: err})
		return
	}
	defer func() { _ = resp.Body.Close() }()
	first := part{resp: resp, arrived: time.Now()}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		u.sendError(first)
		return
	}
	body, closeBody, err := decoder(resp.Header.Values("Content-Encoding"), resp.Body, u.limit)
	if err != nil {
		first.whole, first.err = true, err
		u.send(first)
		return
	}
	defer closeBody()
	u.read(first, body)
}

// roundTrip sends the request, by the client that suits it.
func (u *upstream) roundTrip() (*http.Response, error) {
	r := u.request(u.ctx)
	if !u.transport.plain.takes(r) {
		return u.pooled(r)
	}
	return u.transport.plain.roundTrip(r, func() *http.Request { return u.request(u.ctx) })
}

// pooled sends a request through http.Transport. What plain.roundTrip says of reused connections holds here too.
func (u *upstream) pooled(r *http.Request) (*http.Response, error) {
	var reused, answered atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:              func(info httptrace.GotConnInfo) { reused.Store(info.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	resp, err := u.transport.pool.RoundTrip(r.WithContext(httptrace.WithClientTrace(u.ctx, trace)))
	if err == nil || u.ctx.Err() != nil || !reused.Load() || answered.Load() {
		return resp, err
	}
	return u.transport.fresh.RoundTrip(u.request(u.ctx))
}

// send hands a part over. It reports whether somebody took it.
func (u *upstream) send(p part) bool {
	select {
	case u.parts <- p:
		return true
	case <-u.ctx.Done():
	case <-u.ended:
	}
	return false
}

// sendError hands over an answer that is no success, with as much of its body as comes soon.
func (u *upstream) sendError(p part) {
	if !u.send(part{resp: p.resp, settled: true}) {
		return
	}
	giveUp := time.AfterFunc(errorBodyWait, func() { _ = p.resp.Body.Close() })
	defer giveUp.Stop()
	body, closeBody, err := decoder(p.resp.Header.Values("Content-Encoding"), p.resp.Body, errorBodyLimit)
	if err == nil {
		defer closeBody()
		p.data, _ = readAll(io.LimitReader(body, errorBodyLimit), firstRead, errorBodyLimit, nil)
	}
	p.whole = true
	u.send(p)
}

// read looks at the first bytes and hands the body over as what it is: a stream in parts, anything else whole.
func (u *upstream) read(first part, body io.Reader) {
	buf := u.buffer()
	var shape openai.Shape
	var n int
	var err error
	for shape == openai.ShapeUnknown && err == nil {
		if n == len(buf) {
			n = copy(buf, bytes.TrimLeft(buf, blank)) // some backends send blank lines while they work
		}
		var m int
		m, err = body.Read(buf[n:])
		n += m
		shape = openai.Sniff(buf[:n], err != nil || n == len(buf) && buf[0] > ' ')
	}
	if shape == openai.ShapeSSE {
		first.data, first.err = buf[:n], err
		u.stream(first, body)
		return
	}
	first.whole = true
	first.data, first.err = u.readWhole(buf[:n], err, body, first.resp.ContentLength)
	u.recycle(buf)
	u.send(first)
}

// readWhole reads the rest of a body that began with prefix and err.
func (u *upstream) readWhole(prefix []byte, err error, body io.Reader, length int64) ([]byte, error) {
	data, short := grown(prefix, max(int64(len(prefix)), min(length, u.limit))+1, u.lease)
	if short != nil {
		return nil, short
	}
	if errors.Is(err, io.EOF) {
		return data, nil
	}
	if err != nil {
		return data, err
	}
	rest, err := readOn(data, body, u.limit, u.lease)
	if errors.Is(err, errBodyTooLarge) {
		err = errAnswerTooLarge
	}
	return rest, err
}

// stream hands the body over in parts until it ends or nobody takes them any more.
func (u *upstream) stream(p part, body io.Reader) {
	for {
		more := p.err == nil
		if !u.send(p) {
			u.recycle(p.data)
			break
		}
		if !more {
			break
		}
		buf := u.buffer()
		n, err := body.Read(buf)
		p = part{data: buf[:n], err: err}
	}
	// After drain the end may still come; after abandon this returns at once.
	_, _ = io.CopyN(io.Discard, body, drainLimit)
}

// buffer returns one to read into. Three are in use at most: one is read into, one waits to be taken, one is relayed.
func (u *upstream) buffer() []byte { return buffers.Get().(*[readSize]byte)[:] }
