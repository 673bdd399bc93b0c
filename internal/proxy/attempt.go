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

	slow     time.Duration // longest wait for the first token; 0 is none
	share    time.Duration // what the attempt may use of the budget; 0 is all
	deadline *time.Timer   // nil where nothing bounds the attempt yet

	resp      *http.Response    // once its header came
	events    *sse.Scanner      // where the answer is a stream
	collector *openai.Collector // assembles a stream for a caller that wants one body
	collected int64             // bytes of events in it
	held      []byte            // events before the first token
	token     bool              // the first token came
	progress  openai.Progress   // whether the answer is whole
	heard     time.Time         // when the backend last sent anything
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
	if err := a.send(); err != nil {
		return Outcome{Class: Misconfigured, Cause: err.Error()}
	}
	return a.converse()
}

// end gives everything back and notes how the attempt ended.
func (a *attempt) end(o *Outcome) {
	a.permit.Done(o.evidence())
	if a.deadline != nil {
		a.deadline.Stop()
	}
	if a.up.parts != nil {
		if o.Class == Success && a.events != nil {
			a.up.drain()
		} else {
			a.up.abandon() // or it has ended by itself
		}
	}
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
	end := telemetry.AttemptEnd{Outcome: o.Class.String(), Regime: a.backend.Regime, Cause: o.Cause,
		Prompt: a.usage.Prompt, Completed: a.usage.Completion}
	if a.resp != nil {
		end.Status = a.resp.StatusCode
	}
	if o.Class != Success && o.Class != Cancelled {
		end.Error = string(o.attemptCode())
	}
	if o.saturation() {
		end.Regime = "saturated"
	}
	a.span.End(end)
}

// suspect has the backend asked whether it is silent, where the attempt ended too early to tell.
func (a *attempt) suspect(o *Outcome) {
	switch o.Class {
	case Cancelled, OutOfShare, Deadline:
	default:
		return
	}
	waited := time.Since(a.began)
	if !a.token && waited >= breaker.SuspicionAfter && (a.slow == 0 || waited < a.slow) {
		a.x.p.cfg.Breakers.Suspect(a.backend.ID, a.x.path())
	}
}

// bound settles how long the attempt may go without its first token, and without an answer where it does not stream.
func (a *attempt) bound(others int) {
	s := &a.backend.Saturation
	a.slow = s.SlowAfter
	if !a.x.stream {
		a.slow = s.NonStreamingSlowAfter
	}
	if a.slow > 0 && s.SlowAfterPerKilotoken > 0 {
		tokens := int64(len(a.x.body)) / bytesPerToken
		a.slow += time.Duration(float64(s.SlowAfterPerKilotoken) * float64(tokens) / 1000)
	}
	a.share = a.x.budget.share(a.began, others)
	if first := shorter(a.slow, a.share); first > 0 {
		a.deadline = time.NewTimer(first)
	}
}

// shorter returns the shorter of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// send starts the request. The error is about the route's configuration and names no host.
func (a *attempt) send() error {
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
	a.up.transport, a.up.limit, a.up.fault = tr, x.p.cfg.MaxAnswer, x.p.reportPanic
	a.up.lease = x.p.memory.ofAnswer()
	a.up.request = func(ctx context.Context) *http.Request { return newRequest(ctx, target, header, body) }
	a.up.start(&x.p.background)
	return nil
}

// joinUpTo is the size up to which a body is copied into one piece. net/http writes the header of a request together with
// a body that it knows to lie in memory, and alone before any other: that costs a packet.
const joinUpTo = 64 << 10

// newRequest returns a request that Transport cannot replay by itself: GetBody stays nil.
func newRequest(ctx context.Context, target *url.URL, header http.Header, body openai.Body) *http.Request {
	reader, size := body.Reader(), body.Len()
	if size <= joinUpTo {
		joined, err := readAll(reader, size, size, nil)
		if err == nil {
			reader = io.NopCloser(bytes.NewReader(joined))
		}
	}
	r := &http.Request{Method: http.MethodPost, URL: target, Host: header.Get("Host"), Header: header,
		Body: reader, ContentLength: size, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

// converse waits for whatever comes first: a part of the answer, a limit, a beat that is due, the caller's leaving. It
// never waits for one of them while another could pass.
func (a *attempt) converse() Outcome {
	left := a.x.r.Context().Done()
	for {
		select {
		case p := <-a.up.parts:
			if o, ended := a.take(p); ended {
				return o
			}
		case <-a.expiry():
			if o, ended := a.lastLook(); ended {
				return o
			}
		case <-a.x.caller.beats():
			a.x.caller.onBeat()
		case <-left:
			return Outcome{Class: Cancelled, Cause: "the caller went away"}
		}
		if a.x.caller.err != nil {
			return Outcome{Class: Cancelled, Cause: "the caller does not take what is sent"}
		}
	}
}

func (a *attempt) expiry() <-chan time.Time {
	if a.deadline == nil {
		return nil
	}
	return a.deadline.C
}

// lastLook takes what came just before a limit passed, or while a slow caller was written to; only then it judges.
func (a *attempt) lastLook() (o Outcome, ended bool) {
	select {
	case p := <-a.up.parts:
		if o, ended = a.take(p); ended {
			return o, true
		}
	default:
	}
	return a.expired(time.Now())
}

// expired says which limit has passed, if one has.
func (a *attempt) expired(now time.Time) (o Outcome, ended bool) {
	if a.committed() {
		return a.expiredStream(now)
	}
	switch waited := now.Sub(a.began); {
	case a.slow > 0 && waited >= a.slow:
		return Outcome{Class: Saturated, Slow: a.slow, Cause: "no first token within " + a.slow.Round(time.Millisecond).String()}, true
	case a.x.budget.spent(now):
		return Outcome{Class: Deadline, Cause: "the request's time is over"}, true
	case a.share > 0 && waited >= a.share:
		return Outcome{Class: OutOfShare, Cause: "no first token within its share of the request's time"}, true
	}
	if a.slow > 0 || a.share > 0 {
		a.deadline.Reset(time.Millisecond) // the clock is not quite there
	}
	return Outcome{}, false
}

// expiredStream is expired for an answer that the caller is reading.
func (a *attempt) expiredStream(now time.Time) (o Outcome, ended bool) {
	idle := a.x.route.Timeouts.Idle
	spent, idled := a.x.budget.spent(now), idle > 0 && now.Sub(a.heard) >= idle
	switch {
	case a.progress.Whole() && (spent || idled):
		return a.complete(), true // all that is missing is its [DONE]
	case spent:
		return Outcome{Class: Deadline, Cause: "the request's time is over, within the answer"}, true
	case idled:
		return Outcome{Class: Broken, Code: openai.CodeStreamIdle, Cause: "silent for " + idle.String() + " within the answer"}, true
	}
	a.limitSilence(now)
	return Outcome{}, false
}

// awaitBody ends the wait for a first token: the status has told that there is none to come. What is left of the answer is
// bounded by the upstream, and by the request's whole time.
func (a *attempt) awaitBody() {
	a.slow, a.share = 0, 0
	switch {
	case a.x.budget.limited():
		a.deadline.Reset(max(time.Until(a.x.budget.ends), time.Millisecond))
	case a.deadline != nil:
		a.deadline.Stop()
	}
}

// limitSilence arms the deadline for the end of the idle time or of the budget.
func (a *attempt) limitSilence(now time.Time) {
	var next time.Duration
	if idle := a.x.route.Timeouts.Idle; idle > 0 {
		next = max(idle-now.Sub(a.heard), time.Millisecond)
	}
	if a.x.budget.limited() {
		next = shorter(next, max(a.x.budget.ends.Sub(now), time.Millisecond))
	}
	switch {
	case next > 0 && a.deadline == nil:
		a.deadline = time.NewTimer(next)
	case next > 0:
		a.deadline.Reset(next)
	case a.deadline != nil:
		a.deadline.Stop()
	}
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
