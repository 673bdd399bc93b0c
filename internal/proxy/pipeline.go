package proxy

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/plan"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// pipeline is one request's way, outermost stage first. A stage returns nil to go on. The last one, dispatch, queues,
// attempts and relays along the plan, and ends with the answer; record follows in every case.
var pipeline = [...]stage{
	read,      // the whole body, bounded, decoded
	identify,  // model, stream, budget
	resolve,   // the route, from one snapshot of the table
	authorize, // the caller, where that is on
	rateLimit, // the route's token bucket
	makePlan,  // the order of backends: hint, pins, windows, breakers
	dispatch,  // queue, attempt, relay, from backend to backend
}

// stage is one step of a request.
type stage = func(*exchange) *failure

// exchange is one request on its way through the pipeline. It belongs to the goroutine of the request.
type exchange struct {
	p        *Proxy
	r        *http.Request
	endpoint openai.Endpoint // zero for what is asked about models
	began    time.Time
	caller   caller
	lease    *lease

	body     []byte          // from read
	envelope openai.Envelope // from identify
	stream   bool
	prompt   *promptSize // from the first who asks, see promptSize
	budget   budget
	route    *table.Route // from resolve
	series   *telemetry.RouteSeries
	plan     plan.Plan // from makePlan

	trail     []tried // from dispatch: what was tried, in order
	reason    string  // why the current backend: X-Spillway-Reason
	next      string  // why the one that comes next, if one does
	backend   *table.Backend
	queueFull bool   // a backend was passed over because its queue was full
	quoted    []byte // see quotedModel

	log      telemetry.Access
	answered *telemetry.BackendSeries // of the backend that the caller has an answer of, whole or not
	span     *telemetry.RequestSpan   // nil where tracing is off, and then does nothing
	outside  time.Duration            // spent on backends, the queue and the caller's own sending
}

// modelsEndpoint is the word of what is asked about models in metrics, logs and spans.
const modelsEndpoint = "models"

// endpointName is the endpoint's word in metrics, logs and spans.
func (x *exchange) endpointName() string {
	if x.endpoint == 0 {
		return modelsEndpoint
	}
	return x.endpoint.String()
}

// path is the endpoint's path, which the breakers know it by. The caller's is the same, or there would be no endpoint; only
// that of one model holds what the caller likes.
func (x *exchange) path() string {
	if x.endpoint == 0 && x.r.URL.Path != modelsPath {
		return modelPath
	}
	return x.r.URL.Path
}

// tried is one attempt that ended without an answer for the caller.
type tried struct {
	backend *table.Backend
	outcome Outcome
}

// failure is why a request gets no answer.
type failure struct {
	err *openai.Error
	// rejected is the backend's own error body, which the caller gets in place of err's message.
	rejected []byte
	// gone says that there is nobody to tell.
	gone bool
}

// body is what the caller gets to read.
func (f *failure) body() []byte {
	if f.rejected != nil {
		return openai.AppendRejection(nil, f.rejected, f.err.UpstreamStatus)
	}
	return f.err.AppendJSON(nil)
}

func failed(err *openai.Error) *failure { return &failure{err: err} }

// gone is the failure of a request whose caller went away, or that the process ended.
func (x *exchange) gone() *failure {
	if shuttingDown(x.r.Context()) {
		return failed(&openai.Error{Code: openai.CodeOverloaded, RetryAfter: overloadedRetry,
			Message: "this proxy is shutting down; another one serves the request when it is sent again"})
	}
	return &failure{err: &openai.Error{Code: openai.CodeClientClosed, Message: "the caller went away"}, gone: true}
}

// serve takes one request through the stages.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, ep openai.Endpoint, stages []stage) {
	x := &exchange{p: p, r: r, endpoint: ep, began: time.Now(), lease: p.memory.requestLease(), series: p.cfg.Metrics.Route(nil)}
	x.log.RequestID = requestID(r.Header)
	x.span = p.cfg.Tracer.Request(r, x.path(), x.began)
	x.caller.init(w, r, p.cfg.WriteTimeout, x)
	done := p.cfg.Metrics.InFlight()
	defer done()
	defer x.lease.release()
	defer x.finish()
	for _, stage := range stages {
		if f := stage(x); f != nil {
			x.fail(f)
			return
		}
	}
}

// finish records the request, however it ended. Where the caller cannot be told any more that something went wrong, the
// connection is cut, so that a half answer never looks whole.
func (x *exchange) finish() {
	fault := recover()
	if fault != nil && fault != http.ErrAbortHandler { //nolint:errorlint // net/http compares the panic's value itself
		x.p.reportPanic(fault)
		x.fail(failed(&openai.Error{Code: openai.CodeInternalError, Message: "this proxy made a mistake"}))
	}
	x.record()
	if x.caller.broken() || fault == http.ErrAbortHandler { //nolint:errorlint // as above
		panic(http.ErrAbortHandler)
	}
}

// reportPanic logs where it happened. The panic's value may hold what a caller or a backend sent, so only its type is
// named.
func (p *Proxy) reportPanic(fault any) {
	p.cfg.Log.Error("panic in a request", "type", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
}

// fail tells the caller why there is no answer: as an error with its status, or as the last event of a stream.
func (x *exchange) fail(f *failure) {
	x.log.Error, x.log.Code = string(f.err.Code), f.err.HTTPStatus()
	if f.gone {
		x.caller.abandon()
		return
	}
	x.caller.fail(f)
}
