package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
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

// roundTrip sends a request through http.Transport. What plain.roundTrip says of reused connections holds here too. One that
// found no stream is sent once more as well: of several that begin at once on a new connection of HTTP/2, http.Transport or the
// backend turns those away that are beyond what it allows. Whatever the backend does, no request opens a third connection.
func (t *transport) roundTrip(ctx context.Context, request func(context.Context) *http.Request) (*http.Response, error) {
	var reused, sent, answered atomic.Bool
	var on atomic.Pointer[patientConn]
	trace := &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			reused.Store(info.Reused)
			on.Store(beneath(info.Conn).chosen())
		},
		WroteHeaders:         func() { sent.Store(true) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	once := context.WithValue(ctx, dialed{}, new(atomic.Bool))
	r := request(httptrace.WithClientTrace(once, trace))
	r.GetBody = func() (io.ReadCloser, error) { return nil, errUntaken }
	resp, err := t.pool.RoundTrip(r)
	broke := reused.Load() && !answered.Load() && !wasTaken(err)
	crowdedOut := errors.Is(err, errUntaken) && on.Load().isShared()
	noStream := !sent.Load() && on.Load().lives() || errors.Is(err, errDialed) || crowdedOut
	if err == nil || ctx.Err() != nil || !broke && !noStream {
		return resp, err
	}
	return t.alone(request(ctx))
}

// errUntaken is what http.Transport ends with where it would send a request again: the backend has said that it took nothing of this
// one, by refusing its stream or by the last stream that it names in its farewell. Where no other had chosen the connection, that is
// its answer.
var errUntaken = errors.New("the connection did not take the request")

// alone sends a request over a new connection that no other can use: those that are sent once more may be many at once.
func (t *transport) alone(r *http.Request) (*http.Response, error) {
	host, err := httpguts.PunycodeHostPort(r.URL.Hostname())
	if err != nil {
		return nil, errBadURL
	}
	conn, err := t.fresh.NewClientConn(r.Context(), r.URL.Scheme, net.JoinHostPort(host, r.URL.Port()))
	if err != nil {
		return nil, err
	}
	resp, err := conn.RoundTrip(r)
	if err != nil {
		_ = conn.Close() // otherwise the end of the answer closes it
	}
	return resp, err
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
