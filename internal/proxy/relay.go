package proxy

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/api/stream"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
	"github.com/spillway-dev/spillway/internal/table"
)

// maxHeld bounds the events before the first token, in bytes; they are copied, so one event may be as large as the cap.
const maxHeld = sse.MaxEvent

// uncounted is what a stream may keep without a part in the budget for bodies, in bytes: most never keep more, and counting
// would cost each chunk a write to memory that all requests share.
const uncounted = 64 << 10

// takeError judges an answer that is no success, and whose header arrived at a time.
func (a *attempt) takeError(arrived time.Time) Outcome {
	a.limits.settled = true
	body := a.up.errorBody(a.limits.reserve)
	return withBody(judgeStatus(a.up.resp, body, arrived, a.x.envelope.Stored), body)
}

// takeWhole judges a body that is no stream, and delivers it where it is an answer.
func (a *attempt) takeWhole(body []byte, err error) Outcome {
	switch {
	case errors.Is(err, errNoMemory):
		return noRoom()
	case err != nil:
		return a.verdictOr(unreadable(err))
	}
	facts := openai.JudgeBody(a.x.endpoint, body)
	o := outcomeOf(facts.Answer)
	if o.Class != Success {
		return withBody(o, body)
	}
	a.usage = facts.Usage
	return a.deliver(body, facts.Model)
}

// unreadable is the outcome of a 2xx whose body cannot be read to its end.
func unreadable(err error) Outcome {
	return Outcome{Class: Invalid, Cause: "answer not readable: " + describe(err)}
}

// judgeStatus judges an answer whose status is not 2xx. stored says that the request names something that a backend keeps.
func judgeStatus(resp *http.Response, body []byte, arrived time.Time, stored bool) Outcome {
	answer := openai.JudgeStatus(&openai.Response{Status: resp.StatusCode, Header: resp.Header, Body: body, Now: arrived, Stored: stored})
	return outcomeOf(answer)
}

// withBody keeps the backend's own error where the caller is to get it. An event's data is copied: it does not stay.
func withBody(o Outcome, body []byte) Outcome {
	if o.Class == Rejected || o.Class == TooLong {
		o.Body = bytes.Clone(body)
	}
	return o
}

// deliver gives the caller a whole answer in the form that it asked for.
func (a *attempt) deliver(body []byte, model openai.Span) Outcome {
	x := a.x
	before, name, behind := body, []byte(nil), []byte(nil)
	if x.route.ResponseModel == table.ModelLogical && model.Found() {
		before, name, behind = body[:model.Start], x.quotedModel(), body[model.End:]
	}
	if !x.stream {
		a.started()
		toCaller(x.caller.header(), a.up.resp.Header, a.backend)
		x.caller.answer(http.StatusOK, before, name, behind)
		return Outcome{Class: Success}
	}
	if !x.endpoint.Converts() {
		return Outcome{Class: Invalid, Cause: "a JSON body in answer to a request for a stream"}
	}
	events, err := openai.AppendStream(nil, x.endpoint, slices.Concat(before, name, behind), x.envelope.IncludeUsage)
	if err != nil {
		return Outcome{Class: Invalid, Cause: "a JSON body that makes no stream"}
	}
	a.started()
	x.caller.out = append(x.caller.out, events...)
	x.caller.flush()
	return Outcome{Class: Success}
}

// relay passes a stream on until it ends, one way or another. err is that of the last read.
func (a *attempt) relay(body io.Reader, err error) Outcome {
	for {
		if a.verdict != nil {
			return *a.verdict
		}
		if o, ended := a.takeEvents(err); ended {
			return o
		}
		_, err = a.events.Fill(body)
	}
}

// takeEvents deals with what was read: all whole events in it are passed on in one write.
func (a *attempt) takeEvents(err error) (o Outcome, ended bool) {
	if !a.progress.Whole() { // pings and comments behind the end of an answer are no part of it
		a.heard = time.Now()
	}
	for ev, ok := a.events.Next(); ok; ev, ok = a.events.Next() {
		if o, ended = a.event(ev); ended {
			return o, true
		}
	}
	switch {
	case a.events.Err() != nil:
		return a.broken(openai.CodeStreamFailed, "an event larger than the cap"), true
	case !a.updateLease():
		return noRoom(), true
	case err != nil:
		return a.ended(err), true
	}
	a.flush()
	a.updateLease() // less: what is written is not kept
	return stuck(), a.x.caller.err != nil
}

// updateLease counts what the stream makes this proxy keep: events before the first token, a half one, what is not written yet, and
// the body that is assembled. False says that there is no room for it beside all the others' bodies.
func (a *attempt) updateLease() bool {
	kept := int64(a.events.Size()+cap(a.held)+cap(a.x.caller.out)) + a.collected
	if kept > uncounted {
		return a.up.lease.grow(kept)
	}
	a.up.lease.release()
	return true
}

func (a *attempt) flush() {
	if a.committed() && len(a.x.caller.out) > 0 {
		a.x.caller.flush()
	}
}

// event deals with one event.
func (a *attempt) event(ev sse.Event) (o Outcome, ended bool) {
	facts := openai.JudgeEvent(a.x.endpoint, ev.Name, ev.Data)
	a.usage.Merge(facts.Usage)
	switch facts.Kind {
	case openai.ErrorEvent:
		return a.errorEvent(facts.Answer, ev.Data), true
	case openai.DoneEvent:
		if !a.x.endpoint.EndsWithDone() && !a.progress.Whole() { // no word of this dialect, whose own end is missing
			return a.broken(openai.CodeStreamIncomplete, "the stream ended early"), true
		}
		return a.complete(), true
	case openai.Token:
		a.permit.Token()
		if a.progress.Whole() {
			a.heard = time.Now() // the answer goes on: some servers put a finish reason into every chunk
		}
		if !a.token {
			a.firstToken()
		}
	}
	a.progress.Add(&facts)
	if o, ended = a.pass(ev, facts.Model); !ended && facts.Last {
		a.closed = true
		return a.complete(), true
	}
	return o, ended
}

// firstToken commits a stream to this attempt.
func (a *attempt) firstToken() {
	a.token = true
	if !a.x.stream {
		return // the answer is whole or nothing: its limits stay
	}
	a.started()
	a.x.releaseBody()
	a.rearm()
}

// started notes the first token, tells a streaming caller of it, and hands out what was held back.
func (a *attempt) started() {
	x := a.x
	a.permit.Token()
	x.log.TTFT = time.Since(x.began)
	x.log.Backend, x.log.Reason, x.answered = a.backend.Name, x.reason, a.series
	a.series.FirstToken(x.log.TTFT)
	if !x.stream {
		return
	}
	if !x.caller.committed {
		toCaller(x.caller.header(), a.up.resp.Header, a.backend)
	}
	x.caller.started(stream.Heartbeat{State: stream.StateUpstreamStarted, Backend: a.backend.Name, N: a.n, Reason: x.reason}, a.held)
	a.held = nil
}

// pass puts an event where it belongs: into the assembled body, behind the first token to the caller, before it back.
func (a *attempt) pass(ev sse.Event, model openai.Span) (o Outcome, ended bool) {
	x := a.x
	switch {
	case !x.stream:
		return a.collect(ev)
	case a.token:
		x.caller.out = a.appendEvent(x.caller.out, ev, model)
	case len(a.held)+len(ev.Raw) > maxHeld:
		return Outcome{Class: Invalid, Cause: "too much before the first token"}, true
	default:
		a.held = a.appendEvent(a.held, ev, model)
	}
	return Outcome{}, false
}

func (a *attempt) appendEvent(dst []byte, ev sse.Event, model openai.Span) []byte {
	if !model.Found() || a.x.route.ResponseModel != table.ModelLogical {
		return append(dst, ev.Raw...)
	}
	return ev.AppendSpliced(dst, model.Start, model.End, a.x.quotedModel())
}

// noRoom is the outcome of an answer that this proxy cannot hold besides all others. Another backend's would be as large.
func noRoom() Outcome { return Outcome{Class: NoRoom, Cause: "the budget for bodies is spent"} }

// collect adds an event to the body that is assembled for a caller that did not ask for a stream.
func (a *attempt) collect(ev sse.Event) (o Outcome, ended bool) {
	if a.collector == nil {
		a.collector = openai.NewCollector(a.x.endpoint)
	}
	if a.collected += int64(len(ev.Data)); a.collected > a.x.p.cfg.MaxAnswer {
		return Outcome{Class: Invalid, Cause: describe(errAnswerTooLarge)}, true
	}
	if err := a.collector.Add(ev.Data); err != nil {
		return Outcome{Class: Invalid, Cause: "a stream that makes no body"}, true
	}
	return Outcome{}, false
}

// errorEvent ends the attempt with the error that the backend put into its stream.
func (a *attempt) errorEvent(answer openai.Answer, data []byte) Outcome {
	if a.committed() {
		return a.broken(openai.CodeStreamFailed, "an error event within the answer")
	}
	return withBody(outcomeOf(answer), data)
}

// ended deals with the end of a stream that said nothing of its being the end.
func (a *attempt) ended(err error) Outcome {
	if ev, ok, _ := a.events.Flush(); ok {
		if o, ended := a.event(ev); ended {
			return o
		}
	}
	if a.progress.Whole() {
		return a.complete()
	}
	if errors.Is(err, io.EOF) {
		return a.broken(openai.CodeStreamIncomplete, "the stream ended early")
	}
	return a.broken(openai.CodeStreamIncomplete, "the stream was cut: "+describe(err))
}

// broken is the outcome of a stream that went wrong: the caller's loss where it has a part of it, else only ours.
func (a *attempt) broken(code openai.Code, cause string) Outcome {
	if !a.committed() {
		return Outcome{Class: Invalid, Cause: cause}
	}
	return Outcome{Class: Broken, Code: code, Cause: cause}
}

// complete ends a stream that is whole, with the event that its dialect asks for, whether or not the backend sent one.
func (a *attempt) complete() Outcome {
	switch {
	case !a.token:
		return Outcome{Class: Invalid, Cause: "a stream without a token"}
	case !a.x.stream:
		return a.deliverCollected()
	}
	if !a.closed {
		a.x.caller.out = append(a.x.caller.out, a.x.endpoint.End()...)
	}
	a.x.caller.flush()
	return Outcome{Class: Success}
}

func (a *attempt) deliverCollected() Outcome {
	if a.collector == nil {
		return Outcome{Class: Invalid, Cause: "a stream that makes no body"}
	}
	body, err := a.collector.Body()
	if err != nil {
		return Outcome{Class: Invalid, Cause: "a stream that makes no body"}
	}
	facts := openai.JudgeBody(a.x.endpoint, body)
	return a.deliver(body, facts.Model)
}
