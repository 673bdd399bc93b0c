package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
)

const (
	// readSize is the room for the first read of an answer. Many answers that are no streams fit into it.
	readSize = 4 << 10
	// errorBodyLimit and errorBodyWait bound what is read of an answer that is no success: its status alone tells much.
	errorBodyLimit = 1 << 20
	errorBodyWait  = 5 * time.Second
	// drainLimit and drainWait bound what is read after a stream's last event, so that its connection can be used again.
	drainLimit = 64 << 10
	drainWait  = 250 * time.Millisecond
)

var (
	// errAnswerTooLarge says that an answer that is read whole passed the limit.
	errAnswerTooLarge = errors.New("answer larger than the limit")
	// errLateBody says that what is left of an answer does not come soon enough to wait for it.
	errLateBody = errors.New("the rest of the answer does not come")
)

// upstream is one request to a backend and its answer, in the hands of the goroutine that waits for it: all that blocks
// wakes the waiter in time. Two clients do the work: plain, whose connections are read and written by that goroutine
// itself, under deadlines, and http.Transport, whose answers come from a goroutine of their own (pooled.go).
type upstream struct {
	waiter
	transport  *transport
	request    func(context.Context) *http.Request // a fresh one, with a body of its own
	lease      *lease                              // of an answer that is held whole; whoever waits releases it
	background *sync.WaitGroup                     // counts the goroutines that this needs

	ends time.Time      // where set, nothing is waited for any longer
	resp *http.Response // once its header came
	conn *plainConn     // where plain sends the request

	own    context.Context // of what other goroutines do, which outlives the caller's by the time of release
	cancel context.CancelFunc
}

// due is the waiter's, and the time at which patience ends.
func (u *upstream) due() time.Time { return earlier(u.waiter.due(), u.ends) }

func (u *upstream) wake(now time.Time) error {
	if !u.ends.IsZero() && !now.Before(u.ends) {
		return errLateBody
	}
	return u.waiter.wake(now)
}

// roundTrip sends the request, by the client that suits it, and leaves the answer in resp. release must follow, whatever it
// returns.
func (u *upstream) roundTrip() (err error) {
	r := u.request(context.Background())
	if u.transport.plain.takes(r) {
		err = u.transport.plain.roundTrip(u, r)
	} else {
		err = u.pooled()
	}
	u.request = nil // it holds the body, and nothing is sent again from here on
	return err
}

// release ends the request: the backend sees its caller leave. After a stream that is complete, the end of its body is
// looked for before that, briefly and aside, so that the connection can be used again.
func (u *upstream) release(complete bool) {
	if !complete || !u.detach() {
		u.close()
		return
	}
	u.background.Go(func() {
		defer u.close()
		_, _ = io.CopyN(io.Discard, u.resp.Body, drainLimit)
	})
}

// detach frees the answer of its waiter. It reports whether the caller was there until then.
func (u *upstream) detach() bool {
	u.waiter, u.ends = noWaiter{}, time.Now().Add(drainWait)
	return u.conn == nil || u.conn.unwatch()
}

func (u *upstream) close() {
	switch {
	case u.resp != nil:
		_ = u.resp.Body.Close()
	case u.conn != nil:
		u.conn.close()
	}
	if u.cancel != nil {
		u.cancel()
	}
}

// awaitCall runs f, which no deadline reaches, on a goroutine of its own and waits for it. Where the wait ends earlier, drop
// gets what comes too late.
func awaitCall[T any](u *upstream, f func(context.Context) (T, error), drop func(T)) (v T, err error) {
	type result struct {
		v   T
		err error
	}
	if u.own == nil {
		u.own, u.cancel = context.WithCancel(context.Background())
	}
	ctx, got := u.own, make(chan result)
	u.background.Go(func() {
		v, err := f(ctx)
		select {
		case got <- result{v, err}:
		case <-ctx.Done():
			if err == nil {
				drop(v)
			}
		}
	})
	r, err := await(u, got)
	if err != nil {
		return v, err
	}
	return r.v, r.err
}

// errorBody returns as much as comes soon, and before a time where one is given, of the body of an answer that is no success.
func (u *upstream) errorBody(before time.Time) []byte {
	u.ends = earlier(time.Now().Add(errorBodyWait), before)
	body, closeBody, err := decoder(u.resp.Header.Values("Content-Encoding"), u.resp.Body, errorBodyLimit)
	if err != nil {
		return nil
	}
	defer closeBody()
	data, _ := readAll(io.LimitReader(body, errorBodyLimit), firstRead, errorBodyLimit, growthUnknown, nil)
	return bytes.TrimPrefix(data, byteOrderMark)
}

// blank is what may stand before an answer of any shape.
const blank = " \t\r\n"

// byteOrderMark is no part of JSON, which some servers put it before all the same.
var byteOrderMark = []byte("\ufeff")

// buffers of readSize bytes.
var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// sniff reads as much of a body into buf as tells its shape, and returns it with the error of the last read. The header has a
// say only where the body has none.
func sniff(body io.Reader, buf []byte, header http.Header) (prefix []byte, shape openai.Shape, err error) {
	n := 0
	for shape == openai.ShapeUnknown && err == nil {
		if n == len(buf) {
			n = copy(buf, bytes.TrimLeft(buf, blank)) // some backends send blank lines while they work
		}
		var m int
		m, err = body.Read(buf[n:])
		n += m
		shape = openai.Sniff(buf[:n], err != nil || n == len(buf) && buf[0] > ' ')
	}
	switch prefix = buf[:n]; {
	case shape == openai.ShapeJSON:
		prefix = bytes.TrimPrefix(prefix, byteOrderMark)
	case shape == openai.ShapeOther && mayBeStream(prefix, header):
		shape = openai.ShapeSSE
	}
	return prefix, shape, err
}

// mayBeStream says whether a body of no known shape may be the stream that its type says it is: one may begin with a field that
// nobody knows, and such fields are to be passed over.
func mayBeStream(prefix []byte, header http.Header) bool {
	return len(prefix) > 0 && prefix[0] != '<' && strings.HasPrefix(strings.ToLower(header.Get("Content-Type")), "text/event-stream")
}

// readWhole reads the rest of a body that began with prefix and err. What fits stays in prefix's own array.
func (u *upstream) readWhole(prefix []byte, err error, body io.Reader, limit int64) ([]byte, error) {
	if err != nil && !errors.Is(err, io.EOF) {
		return prefix, err
	}
	size := max(int64(cap(prefix)), min(u.resp.ContentLength, limit, trustedLength)+1)
	if !u.lease.grow(size) {
		return nil, errNoMemory
	}
	if err != nil {
		return prefix, nil
	}
	if size > int64(cap(prefix)) {
		prefix = append(make([]byte, 0, size), prefix...)
	}
	data, err := readOn(prefix, body, limit, growthUnknown, u.lease)
	if errors.Is(err, errBodyTooLarge) {
		err = errAnswerTooLarge
	}
	return data, err
}
