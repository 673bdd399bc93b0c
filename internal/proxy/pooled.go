package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// pumpSize is the room for one read of http.Transport's answers.
const pumpSize = 2 << 10

// pooled sends the request through http.Transport, whose reads take no deadline.
func (u *upstream) pooled() error {
	tr, request := u.transport, u.request
	send := func(ctx context.Context) (*http.Response, error) { return tr.roundTrip(ctx, request) }
	resp, err := awaitCall(u, send, func(late *http.Response) { _ = late.Body.Close() }) //nolint:bodyclose // release does
	if err != nil {
		return err
	}
	body := &pump{u: u, from: resp.Body, parts: make(chan part)}
	ctx := u.own
	u.background.Go(func() { body.run(ctx) })
	resp.Body = body
	u.resp = resp
	return nil
}

// unsentTries is how often a request is sent again that has not left. Of several that begin at once on a new connection of HTTP/2,
// those beyond the streams that it allows are turned away by http.Transport.
const unsentTries = 8

// roundTrip sends a request through http.Transport. What plain.roundTrip says of reused connections holds here too.
func (t *transport) roundTrip(ctx context.Context, request func(context.Context) *http.Request) (*http.Response, error) {
	for try := 0; ; try++ {
		var connected, reused, sent, answered atomic.Bool
		trace := &httptrace.ClientTrace{
			GotConn:              func(info httptrace.GotConnInfo) { connected.Store(true); reused.Store(info.Reused) },
			WroteHeaders:         func() { sent.Store(true) },
			GotFirstResponseByte: func() { answered.Store(true) },
		}
		resp, err := t.pool.RoundTrip(request(httptrace.WithClientTrace(ctx, trace)))
		switch {
		case err == nil || ctx.Err() != nil:
			return resp, err
		case connected.Load() && !sent.Load() && try < unsentTries:
		case !reused.Load() || answered.Load() || wasTaken(err):
			return nil, err
		default:
			return t.fresh.RoundTrip(request(ctx))
		}
	}
}

// streamReset is a reset of one stream of HTTP/2. errors.As fills it from what net/http returns, by the names of the fields.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamReset) Error() string { return "stream reset" }

// wasTaken says whether the backend has reset a request whose connection lives. That is an answer, and the request may have been
// worked on, unless the code is the one that says the opposite.
func wasTaken(err error) bool {
	const refusedStream = 0x7
	var reset streamReset
	return errors.As(err, &reset) && reset.Code != refusedStream
}

// pump is a body that a goroutine of its own reads, so that the waiter can wait for other things too.
type pump struct {
	u     *upstream
	from  io.ReadCloser
	parts chan part
	last  part // what is left of it is read next
}

// part is what one read returned.
type part struct {
	data []byte
	err  error
}

// run reads until the body ends or nobody takes parts any more. While one part is being used, the next is read: the
// channel has no room, so a part that was taken says that the one before it is used up.
func (b *pump) run(ctx context.Context) {
	defer func() { _ = b.from.Close() }()
	var room [2][]byte
	for i := 0; ; i = 1 - i {
		if room[i] == nil {
			room[i] = make([]byte, pumpSize)
		}
		n, err := b.from.Read(room[i])
		select {
		case b.parts <- part{room[i][:n], err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (b *pump) Read(p []byte) (int, error) {
	if len(b.last.data) == 0 && b.last.err == nil {
		next, err := await(b.u, b.parts)
		if err != nil {
			return 0, err
		}
		b.last = next
	}
	n := copy(p, b.last.data)
	b.last.data = b.last.data[n:]
	if len(b.last.data) > 0 {
		return n, nil
	}
	return n, b.last.err
}

// Close ends the request, wherever it is.
func (b *pump) Close() error {
	b.u.cancel()
	return nil
}
