package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// writeSlice is how much is written under one deadline, so that a slow caller of a long answer is not a stuck one.
	writeSlice = 64 << 10
	// stateKeepalive is the metric's word for a state that was repeated.
	stateKeepalive = "keepalive"
)

// caller is the writing half of a request. Only the request's own goroutine uses it, so nothing it writes can be torn.
//
// For a stream it collects comments until the status line is committed: by the first token, or when
// heartbeat.commitAfter has passed. Everything is written at event boundaries, because whole events and whole comments
// are all that is ever put into out.
type caller struct {
	x       *exchange
	w       http.ResponseWriter
	conn    *http.ResponseController
	timeout time.Duration
	http2   bool

	listening bool      // to heartbeats
	next      time.Time // when beat has something to do; zero: never
	heartbeat table.Heartbeat
	form      sse.Form
	state     stream.Heartbeat
	unwritten []string // states in out that count once they are written
	json      []byte

	out       []byte // what the next flush writes
	committed bool
	wrote     time.Time // of the last write
	ends      time.Time // the deadline of writes
	err       error     // of a write: the caller is gone or stuck
	aborted   bool      // the answer must not look whole
}

func (c *caller) init(w http.ResponseWriter, r *http.Request, timeout time.Duration, x *exchange) {
	*c = caller{x: x, w: w, conn: http.NewResponseController(w), timeout: timeout, http2: r.ProtoMajor >= 2}
	w.Header()[headerRequestID] = []string{x.log.RequestID}
	if !c.http2 {
		// The connection's last answer has left its deadline, which must not fall into a "100 Continue" of this request.
		c.extend()
	}
}

func (c *caller) header() http.Header { return c.w.Header() }

// listen starts the heartbeats of a streaming request. The time that its body took to come is none in which its caller has waited
// for comments: it must not cost an error its status.
func (c *caller) listen(h table.Heartbeat) {
	c.heartbeat = h
	if h.Form == table.HeartbeatBlock {
		c.form = sse.Block
	}
	c.listening, c.next = true, time.Now().Add(h.CommitAfter)
}

// due is when beat has something to do; the zero time is never.
func (c *caller) due() time.Time { return c.next }

// beat commits the status line when its time has come, and repeats the state after an interval without output. It may be
// called at any time.
func (c *caller) beat(now time.Time) {
	if c.next.IsZero() || now.Before(c.next) {
		return
	}
	nextBeat := c.wrote.Add(c.heartbeat.Interval)
	switch {
	case !c.committed:
		c.commit(true)
		c.flush()
		c.rearm(now)
	case now.Before(nextBeat):
		c.next = nextBeat
	default:
		again := c.state
		again.ElapsedMS = now.Sub(c.x.began).Milliseconds()
		c.comment(&again, stateKeepalive)
		c.flush()
		c.rearm(now)
	}
}

func (c *caller) rearm(now time.Time) { c.next = after(now, c.heartbeat.Interval) }

// notify tells a streaming caller what its request does now; others are not told.
func (c *caller) notify(h stream.Heartbeat) {
	if !c.listening {
		return
	}
	c.state = h
	c.comment(&h, string(h.State))
	if c.committed {
		c.flush()
	}
}

func (c *caller) comment(h *stream.Heartbeat, counted string) {
	c.json = h.AppendJSON(c.json[:0])
	c.out = sse.AppendComment(c.out, c.json, c.form)
	c.unwritten = append(c.unwritten, counted)
}

// started commits the stream with its first token: what was collected, the comment that says so, then the events that
// were held back. More may be appended to out before the flush.
func (c *caller) started(h stream.Heartbeat, held []byte) {
	c.state = h
	c.comment(&h, string(h.State))
	if !c.committed {
		c.commit(false)
		c.rearm(time.Now())
	}
	c.out = append(c.out, held...)
}

// commit sends the status line of a stream with the next flush. An early one leaves out what is not final yet.
func (c *caller) commit(early bool) {
	c.committed = true
	c.extend() // there may be nothing to write behind it, and the body may have taken long to come
	h := c.header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	c.x.setDecisions(h, early)
	c.w.WriteHeader(http.StatusOK)
}

// flush writes out under a renewed deadline and hands it to the network.
func (c *caller) flush() {
	if c.err == nil && c.write(c.out) {
		c.err = c.conn.Flush()
		if c.http2 {
			// An HTTP/2 stream is reset when a deadline passes, whether or not something is being written.
			_ = c.conn.SetWriteDeadline(time.Time{})
		}
	}
	c.out = c.out[:0]
	if cap(c.out) > writeSlice {
		c.out = nil // one giant event must not be paid for to the stream's end
	}
	for _, state := range c.unwritten {
		c.x.series.Heartbeat(state)
		c.x.span.Heartbeat(state)
	}
	c.unwritten = c.unwritten[:0]
}

// write writes p in slices, each under a deadline of its own. It reports whether the caller took them.
func (c *caller) write(p []byte) bool {
	for len(p) > 0 && c.err == nil {
		n := min(len(p), writeSlice)
		c.extend()
		_, c.err = c.w.Write(p[:n])
		c.x.log.BytesOut += int64(n)
		p = p[n:]
	}
	return c.err == nil
}

// extend gives what is written next a deadline of its own. One that was given within the last thirtieth of the timeout
// stays: renewing takes a lock of the poller.
func (c *caller) extend() {
	c.wrote = time.Now()
	ends := c.wrote.Add(c.timeout)
	if c.http2 || ends.Sub(c.ends) > c.timeout/30 {
		_ = c.conn.SetWriteDeadline(ends) // where it cannot be set, the connection is gone
		c.ends = ends
	}
}

// answer writes a whole answer that is no stream, in pieces.
func (c *caller) answer(status int, pieces ...[]byte) {
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	h := c.header()
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(size)}
	c.x.setDecisions(h, false)
	c.committed = true
	c.w.WriteHeader(status)
	for _, piece := range pieces {
		c.write(piece)
	}
}

// fail tells the caller why there is no answer, in the form that is still possible.
func (c *caller) fail(f *failure) {
	switch {
	case c.committed && !c.x.stream:
		c.aborted = true // half a body is out
	case c.committed:
		c.out = openai.AppendErrorEvent(c.out, c.x.endpoint, f.body())
		c.flush()
	default:
		c.failWithStatus(f)
	}
}

func (c *caller) failWithStatus(f *failure) {
	h := c.header()
	c.x.setDecisions(h, false)
	if pointless(f.err) {
		h.Set("X-Should-Retry", "false")
	}
	c.committed = true
	c.extend()
	if f.rejected == nil {
		openai.WriteError(c.w, f.err)
		c.x.log.BytesOut += int64(len(f.body()))
		return
	}
	c.answer(f.err.HTTPStatus(), f.body())
}

// abandon is for a caller that is gone.
func (c *caller) abandon() { c.aborted = true }

// broken says that the connection has to be cut.
func (c *caller) broken() bool { return c.aborted || c.err != nil }

// pointless says whether sending the same request again cannot help, however long one waits.
func pointless(err *openai.Error) bool {
	if err.HTTPStatus() == http.StatusRequestTimeout {
		return false
	}
	switch err.Code {
	case openai.CodeInvalidRequest, openai.CodeRequestTooLarge, openai.CodeUnsupportedEncoding, openai.CodeUnauthenticated,
		openai.CodeForbidden, openai.CodeModelNotFound, openai.CodeUpstreamRejected, openai.CodeUpstreamMisconfigured:
		return true
	}
	return false
}

// setDecisions sets the headers that say what was decided. An early commit leaves out what is not final yet.
func (x *exchange) setDecisions(h http.Header, early bool) {
	if x.route == nil {
		return
	}
	h["X-Spillway-Route"] = []string{x.route.Key()}
	if x.plan.Preference != "" {
		h["X-Spillway-Preference"] = []string{string(x.plan.Preference)}
	}
	if early || x.log.Attempts == 0 {
		return
	}
	h["X-Spillway-Attempts"] = []string{strconv.Itoa(x.log.Attempts)}
	if x.backend != nil {
		h["X-Spillway-Backend"] = []string{x.backend.Name}
		h["X-Spillway-Reason"] = []string{x.reason}
	}
}
