package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// attempt is one request to one backend. It belongs to the goroutine of the request.
type attempt struct {
	x       *exchange
	n       int // position in the plan, from 1
	backend *table.Backend
	series  *telemetry.BackendSeries
	permit  *breaker.Permit
	up      upstream
	span    *telemetry.AttemptSpan
	began   time.Time

	limits  limits
	verdict *Outcome // what wake has given the attempt up for

	events    *sse.Scanner      // where the answer is a stream
	collector *openai.Collector // assembles a stream for a caller that wants one body
	collected int64             // bytes of events in it
	held      []byte            // events before the first token
	token     bool              // the first token came
	progress  openai.Progress   // whether the answer is whole
	closed    bool              // its last event was the one with which its dialect ends a stream
	heard     time.Time         // when the backend last sent anything of its answer
	usage     openai.Usage
}

// attempt sends the request to the step's backend and relays the answer. Whatever happens, the permit is given back with
// what it ended in, and before the backend sees its caller leave: one that loads its model would stop.
func (x *exchange) attempt(i int, permit *breaker.Permit) (outcome Outcome) {
	backend := x.plan.Steps[i].Backend
	a := &attempt{x: x, n: i + 1, backend: backend, permit: permit, began: time.Now(), series: x.series.Backend(backend.Name)}
	a.span = x.span.Attempt(telemetry.AttemptStart{N: a.n, Backend: backend.Name, Model: backend.Model, Began: a.began})
	x.log.Attempts++
	outcome = Outcome{Class: Cancelled, Cause: "panic"} // until it is known better
	defer func() { a.end(&outcome) }()
	a.bound(len(x.plan.Steps) - a.n)
	if err := a.prepare(); err != nil {
		return Outcome{Class: Misconfigured, Cause: err.Error()}
	}
	return a.run()
}

// end gives everything back and notes how the attempt ended.
func (a *attempt) end(o *Outcome) {
	a.permit.Done(o.evidence())
	a.up.release(o.Class == Success && a.events != nil)
	a.up.lease.release()
	a.suspect(o)
	a.x.outside += time.Since(a.began)
	a.note(o)
	a.endSpan(o)
}

// note counts the attempt.
func (a *attempt) note(o *Outcome) {
	a.series.Attempt(o.Class.String())
	if o.saturation() {
		a.series.Saturated()
	}
	if a.usage.Known {
		a.series.Tokens(a.usage.Prompt, a.usage.Completion)
		a.x.log.Prompt, a.x.log.Completed = a.usage.Prompt, a.usage.Completion
	}
	if o.Class == Success {
		return
	}
	a.x.log.Cause = o.Cause
	a.x.trail = append(a.x.trail, tried{backend: a.backend, outcome: *o})
}

// endSpan ends the attempt's span with what it ended in.
func (a *attempt) endSpan(o *Outcome) {
	end := o.spanEnd(a.backend)
	end.Prompt, end.Completed = a.usage.Prompt, a.usage.Completion
	if a.up.resp != nil {
		end.Status = a.up.resp.StatusCode
	}
	a.span.End(end)
}

// spanEnd is what the span of an attempt or a probe at a backend ends with.
func (o *Outcome) spanEnd(b *table.Backend) telemetry.AttemptEnd {
	end := telemetry.AttemptEnd{Outcome: o.Class.String(), Regime: b.Regime, Cause: o.Cause, Status: o.Status, Error: string(o.attemptCode())}
	if o.saturation() {
		end.Regime = "saturated"
	}
	return end
}

// suspect has the backend asked whether it is silent, where the attempt ended too early to tell.
func (a *attempt) suspect(o *Outcome) {
	switch o.Class {
	case Cancelled, OutOfShare, Deadline:
	default:
		return
	}
	if !a.token && time.Since(a.began) >= breaker.SuspicionAfter {
		a.x.p.cfg.Breakers.Suspect(a.backend.ID, a.x.path())
	}
}

// prepare makes the request. The error is about the route's configuration and names no host.
func (a *attempt) prepare() error {
	x := a.x
	tr, err := x.p.transports.get(a.backend, x.route.Timeouts.Connect)
	if err != nil {
		return err
	}
	target, err := targetURL(a.backend, x.endpoint)
	if err != nil {
		return err
	}
	target.RawQuery = mergedQuery(target.RawQuery, x.r.URL.RawQuery)
	body := x.envelope.Splice(x.body, a.backend.Model)
	header := x.toBackend(a.backend)
	a.span.Inject(header)
	a.up = upstream{waiter: a, transport: tr, lease: x.p.memory.answerLease(), background: &x.p.background}
	a.up.request = func(ctx context.Context) *http.Request { return newRequest(ctx, target, header, body) }
	return nil
}

// run sends the request and takes the answer as what its status and its first bytes say that it is.
func (a *attempt) run() Outcome {
	if err := a.up.roundTrip(); err != nil {
		return a.verdictOr(transportOutcome(err))
	}
	resp := a.up.resp
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return a.verdictOr(a.takeError(time.Now()))
	}
	body, closeBody, err := decoder(resp.Header.Values("Content-Encoding"), resp.Body, a.x.p.cfg.MaxAnswer)
	if err != nil {
		return unreadable(err)
	}
	defer closeBody()
	room := buffers.Get().(*[readSize]byte)
	prefix, shape, err := sniff(body, room[:], resp.Header)
	if shape != openai.ShapeSSE {
		defer buffers.Put(room)
		return a.takeWhole(a.up.readWhole(prefix, err, body, a.x.p.cfg.MaxAnswer))
	}
	a.events = sse.NewScanner(0)
	a.events.Feed(prefix)
	buffers.Put(room)
	return a.relay(body, err)
}

// verdictOr returns the verdict where the attempt was given up, else what the end of the attempt looks like by itself.
func (a *attempt) verdictOr(o Outcome) Outcome {
	if a.verdict != nil {
		return *a.verdict
	}
	return o
}

// joinUpTo is the size up to which a body is copied into one piece. net/http writes the header of a request together with
// a body that it knows to lie in memory, and alone before any other: that costs a packet.
const joinUpTo = 64 << 10

// newRequest returns a request that Transport cannot replay by itself: GetBody stays nil.
func newRequest(ctx context.Context, target *url.URL, header http.Header, body openai.Body) *http.Request {
	reader, size := body.Reader(), body.Len()
	if size <= joinUpTo {
		joined, err := readAll(reader, size, size, growthUnknown, nil)
		if err == nil {
			reader = io.NopCloser(bytes.NewReader(joined))
		}
	}
	r := &http.Request{Method: http.MethodPost, URL: target, Host: header.Get("Host"), Header: header,
		Body: reader, ContentLength: size}
	return r.WithContext(ctx)
}

// committed says whether the caller has got a part of this answer.
func (a *attempt) committed() bool { return a.token && a.x.stream }

// targetURL joins a backend's base with the endpoint. The caller's path has no part in it.
func targetURL(b *table.Backend, ep openai.Endpoint) (*url.URL, error) {
	u, err := url.Parse(b.BaseURL + ep.Suffix())
	if err != nil {
		return nil, errBadURL
	}
	u.RawQuery = b.Query
	return u, nil
}
