package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
)

// settle ends a request whose attempt no other backend can follow. nil means that the caller has its answer.
func (x *exchange) settle(backend *table.Backend, o *Outcome) *failure {
	switch o.Class {
	case Success:
		x.log.Code = http.StatusOK
		return nil
	case Cancelled:
		return x.gone()
	case Deadline:
		return failed(x.deadlineError())
	case Rejected:
		return rejection(backend, o)
	case NoRoom:
		e := noMemory()
		e.Attempts = x.notes()
		return failed(e)
	}
	return failed(&openai.Error{Code: o.code(), Attempts: x.notes(), Message: brokenMessage(backend, o.code())})
}

func brokenMessage(backend *table.Backend, code openai.Code) string {
	switch code {
	case openai.CodeStreamIncomplete:
		return "the stream of backend " + backend.Name + " ended before its answer was whole"
	case openai.CodeStreamIdle:
		return "the stream of backend " + backend.Name + " went silent before its answer was whole"
	}
	return "the stream of backend " + backend.Name + " failed before its answer was whole"
}

// rejection hands on a backend's own error.
func rejection(backend *table.Backend, o *Outcome) *failure {
	status := o.Status
	if status > 499 {
		status = http.StatusBadRequest // an error inside a 200 whose code and status contradict each other
	}
	return &failure{rejected: o.Body, err: &openai.Error{Code: openai.CodeUpstreamRejected, Status: status, UpstreamStatus: status,
		Message: "backend " + backend.Name + " rejected the request"}}
}

// exhausted is what the caller gets when no backend is left: what the decisive attempt ended in, or why none was made.
func (x *exchange) exhausted() *failure {
	if len(x.trail) == 0 {
		return failed(x.untried())
	}
	t := x.decisive()
	if t.outcome.Class == TooLong {
		if e := x.passedOver(t.backend); e != nil {
			return failed(e)
		}
		return rejection(t.backend, &t.outcome)
	}
	e := &openai.Error{Code: t.outcome.code(), Attempts: x.notes(), Message: x.exhaustedMessage(t)}
	if t.outcome.saturation() {
		e.RetryAfter = x.retryAfter()
		if x.allThrottled() {
			e.Status = http.StatusTooManyRequests
		}
	}
	return failed(e)
}

// decisive is the attempt whose end the caller is told: the last one. Where a window was too small for the prompt it is the
// first: no caller is to shorten a prompt because of a fallback that it never asked for, while the backend that it did ask for is
// merely busy (docs/adr/0011).
func (x *exchange) decisive() *tried {
	for i := range x.trail {
		if x.trail[i].outcome.Class == TooLong {
			return &x.trail[0]
		}
	}
	return &x.trail[len(x.trail)-1]
}

// passedOver is for a window that is too small where the first backend of the order was not asked, being open or full: it is busy, as
// if it had said so itself. It is nil where the backend that was asked is the first, or the first does not serve the endpoint.
func (x *exchange) passedOver(asked *table.Backend) *openai.Error {
	first := x.plan.First
	view := x.p.cfg.Breakers.View(first.ID, x.path())
	if first == asked || view.Reason == breaker.ReasonEndpointMissing {
		return nil
	}
	const behind = ", and the context window of what was asked in its place is too small"
	e := &openai.Error{Code: openai.CodeBackendSaturated, RetryAfter: max(view.Remaining, time.Second), Attempts: x.notes(),
		Message: "the backend " + first.Name + " is busy" + behind}
	if !view.Usable && !view.Reason.Saturation() {
		e.Code, e.Status = openai.CodeUpstreamError, http.StatusServiceUnavailable
		e.Message = "the backend " + first.Name + " has failed and is being left alone for a while" + behind
	}
	return e
}

// untried is for a plan that led to no attempt.
func (x *exchange) untried() *openai.Error {
	switch {
	case x.queueFull:
		x.p.cfg.Metrics.QueueRejected()
		return &openai.Error{Code: openai.CodeRateLimitError, RetryAfter: time.Second,
			Message: fmt.Sprintf("every backend is busy and its queue full (spec.queue of LLMRoute %s)", x.route.Key())}
	}
	saturated, wait := x.openBreakers()
	e := &openai.Error{Code: openai.CodeUpstreamError, Status: http.StatusServiceUnavailable, RetryAfter: max(wait, time.Second),
		Message: "the backends of this model have failed and are being left alone for a while"}
	if saturated {
		e.Code, e.Message = openai.CodeBackendSaturated, "the backends of this model are busy and are being left alone for a while"
	}
	return e
}

// openBreakers says whether any backend that could have served is open because it is busy, and when the first of them may
// be asked again; 0 where none is open.
func (x *exchange) openBreakers() (saturated bool, wait time.Duration) {
	looked := false
	look := func(b *table.Backend) {
		v := x.p.cfg.Breakers.View(b.ID, x.path())
		if v.Usable {
			return
		}
		saturated = saturated || v.Reason.Saturation()
		// What remains is 0 where a probe is out or due: then the answer is a matter of a moment.
		if left := max(v.Remaining, time.Second); !looked || left < wait {
			looked, wait = true, left
		}
	}
	for i := range x.plan.Steps {
		look(x.plan.Steps[i].Backend)
	}
	for i := range x.plan.Skipped {
		if x.plan.Skipped[i].Why == plan.WhyBreakerOpen {
			look(x.plan.Skipped[i].Backend)
		}
	}
	return saturated, wait
}

// retryAfter is the smallest that a backend asked for, else the time until the first breaker lets somebody through.
func (x *exchange) retryAfter() time.Duration {
	var smallest time.Duration
	for i := range x.trail {
		if o := &x.trail[i].outcome; o.HasRetryAfter {
			smallest = shorter(smallest, max(o.RetryAfter, time.Second))
		}
	}
	if smallest == 0 {
		_, smallest = x.openBreakers()
	}
	return smallest
}

// allThrottled says whether every backend that was tried, and whose window is large enough, said 429.
func (x *exchange) allThrottled() bool {
	for i := range x.trail {
		if o := &x.trail[i].outcome; o.Class != TooLong && o.Status != http.StatusTooManyRequests {
			return false
		}
	}
	return true
}

// exhaustedMessage names the backend of the decisive attempt, and says that all failed where there was more than one.
func (x *exchange) exhaustedMessage(t *tried) string {
	says := rules[t.outcome.Class].says
	for i := range x.trail {
		if x.trail[i].backend.Name == t.backend.Name {
			continue
		}
		which := "last"
		if t == &x.trail[0] {
			which = "first"
		}
		return "all backends failed; the " + which + " one, " + t.backend.Name + ", " + says
	}
	return "the backend " + t.backend.Name + " " + says
}

func (x *exchange) deadlineError() *openai.Error {
	e := &openai.Error{Code: openai.CodeDeadlineExceeded, Attempts: x.notes()}
	e.Message = fmt.Sprintf("no complete answer within %s, the request's whole time", x.budget.total.Round(time.Millisecond))
	return e
}

// notes lists the attempts for the caller, by name and class.
func (x *exchange) notes() []openai.AttemptNote {
	var notes []openai.AttemptNote
	for i := range x.trail {
		notes = append(notes, openai.AttemptNote{Backend: x.trail[i].backend.Name, Class: x.trail[i].outcome.Class.String()})
	}
	return notes
}

// quotedModel is the logical model as a JSON string.
func (x *exchange) quotedModel() []byte {
	if x.quoted == nil {
		x.quoted = openai.Quote(x.route.Model)
	}
	return x.quoted
}

// record writes down what became of the request: metrics, one line of the access log, and the end of its span.
func (x *exchange) record() {
	now := time.Now()
	x.log.Endpoint = x.endpointName()
	x.log.Duration = now.Sub(x.began)
	if x.caller.err != nil {
		x.log.Code, x.log.Error = openai.CodeClientClosed.Status(), string(openai.CodeClientClosed)
	}
	x.series.Request(x.log.Endpoint, x.log.Code)
	x.p.cfg.Metrics.Overhead(max(x.log.Duration-x.outside, 0))
	if x.answered != nil {
		x.answered.Duration(x.log.Duration)
	}
	x.log.Hint = strings.ToValidUTF8(x.log.Hint, "?")
	x.log.TraceID = x.span.TraceID()
	line := x.log
	if line.Backend == "" && x.backend != nil {
		line.Backend, line.Reason = x.backend.Name, x.reason // as the header has it
	}
	x.p.cfg.AccessLog.Write(x.p.cfg.Now(), &line)
	model := ""
	if x.route != nil && x.endpoint != 0 {
		model = x.route.Model // what is asked about models is no call of one
	}
	x.span.End(now, model, &x.log)
}
