package sdk

import "net/http"

// scenario is one request of a client, and what the backends make of it.
type scenario struct {
	stream, tools bool
	retries       int // that the client may make
	// chain is what the backends do, in the order of the route.
	chain []script
	// impatient gives the first backend up when it is silent for 200 ms.
	impatient bool
	// early commits the status line before the first answer can be there, so that heartbeats go out at once.
	early bool
	// idle is how long a stream may be silent after its first token.
	idle string
	// budget is the request's whole time.
	budget string
	// form of the heartbeats; empty: one run with each form that the client reads.
	form string
	// model is asked for in place of the route's.
	model string

	// direct is what the client is compared with: its result at a backend that does this. nil: it is not compared.
	direct script
	// want is the exception that the client has to raise; nil: none.
	want *exception
	// sameAsDirect wants the exception in the class and the words in which the client raises it without the proxy.
	sameAsDirect bool
	// text is what the client has to have read, where it is not compared.
	text string
	// requests is how often the client has to have asked; 0: once.
	requests int

	// only names the clients that the scenario is for; nil: all.
	only []string
}

// exception is what a client has to raise.
type exception struct {
	status int    // inStream: the status line was 200
	says   string // in its code or message
	class  string // empty: the client's own for the status
}

const inStream = 0

// Forms of heartbeats.
const (
	line  = "Line"
	block = "Block"
)

// retrying names the clients that do as Retry-After and X-Should-Retry say. The others have a rule of their own.
var retrying = clientsWhere(func(name string, _ *dialect) bool { return name != aiNode && name != langchainNode })

// converting names the clients whose dialect the proxy converts between a body and a stream.
var converting = clientsWhere(func(_ string, d *dialect) bool { return d == chat || d == completions })

// responsesClients names the clients that speak the responses dialect.
var responsesClients = clientsWhere(func(_ string, d *dialect) bool { return d == responses })

// answered are the scenarios in which nobody may notice that there is a proxy.
var answered = map[string]scenario{
	"an answer":                     {chain: []script{whole}, direct: whole},
	"an answer with tool calls":     {tools: true, chain: []script{wholeTools}, direct: wholeTools},
	"a stream":                      {stream: true, early: true, chain: []script{streamsSlowly}, direct: streams},
	"a stream without any wait":     {stream: true, chain: []script{streams}, direct: streams},
	"a stream of tool calls":        {stream: true, tools: true, early: true, chain: []script{streamsToolsSlowly}, direct: streamsToolsSlowly},
	"a stream without [DONE]":       {stream: true, chain: []script{streamsWithoutDone}, direct: streams},
	"a body where a stream was due": {stream: true, chain: []script{whole}, direct: streams, only: converting},
	"a stream where a body was due": {chain: []script{streams}, direct: whole, only: converting},
	"a second backend answers":      {chain: []script{rejects(http.StatusInternalServerError), whole}, direct: whole},
	"a second backend streams because the first is silent": {
		stream: true, early: true, impatient: true, chain: []script{goesSilent, streamsSlowly}, direct: streams,
	},
	"a second backend streams tool calls because the first is silent": {
		stream: true, tools: true, early: true, impatient: true, chain: []script{goesSilent, streamsToolsSlowly}, direct: streamsToolsSlowly,
	},
	"a third backend streams because one is busy and one broken": {
		stream: true, early: true, chain: []script{rejects(http.StatusServiceUnavailable, "Retry-After", "30"), dropsEarly, streamsSlowly},
		direct: streams,
	},
	"a second backend streams because the first has an error in its stream": {
		stream: true, early: true, chain: []script{crashesEarly, streamsSlowly}, direct: streams,
	},
	"a second backend streams because the first says that its response failed": {
		stream: true, early: true, only: responsesClients, chain: []script{failsEarly, streamsSlowly}, direct: streams,
	},
	"a client that retries when it is told to": {
		retries: 2, requests: 2, chain: []script{busyOnce(whole)}, direct: whole, only: retrying,
	},
	"a client that retries a stream when it is told to": {
		retries: 2, requests: 2, stream: true, chain: []script{busyOnce(streams)}, direct: streams, only: retrying,
	},
}

// refused are the scenarios in which the answer is an error with a status of its own. Each is run as a stream, too.
var refused = map[string]scenario{
	"a bad request": {
		chain: []script{rejects(http.StatusBadRequest)}, direct: rejects(http.StatusBadRequest), sameAsDirect: true,
		want: &exception{status: http.StatusBadRequest, says: rejectionTold},
	},
	"a conflict, which must not be retried": {
		retries: 2, only: retrying, chain: []script{rejects(http.StatusConflict)}, want: &exception{status: http.StatusConflict, says: rejectionTold},
	},
	"a request that cannot be processed": {
		chain: []script{rejects(http.StatusUnprocessableEntity)}, direct: rejects(http.StatusUnprocessableEntity), sameAsDirect: true,
		want: &exception{status: http.StatusUnprocessableEntity, says: rejectionTold},
	},
	"a model that does not exist": {
		model: "sdk/none", chain: []script{whole}, want: &exception{status: http.StatusNotFound, says: "model_not_found"},
	},
	"a key that the backend does not take, which must not be retried": {
		retries: 2, only: retrying, chain: []script{rejects(http.StatusUnauthorized)},
		want: &exception{status: http.StatusBadGateway, says: "upstream_misconfigured"},
	},
	"a key that the backend does not take": {
		chain: []script{rejects(http.StatusUnauthorized)}, want: &exception{status: http.StatusBadGateway, says: "upstream_misconfigured"},
	},
	"too many requests at every backend": {
		chain: []script{rejects(http.StatusTooManyRequests, "Retry-After", "30"), rejects(http.StatusTooManyRequests)},
		want:  &exception{status: http.StatusTooManyRequests, says: "backend_saturated"},
	},
	"a busy backend": {
		chain: []script{rejects(http.StatusServiceUnavailable, "Retry-After", "30")},
		want:  &exception{status: http.StatusServiceUnavailable, says: "backend_saturated"},
	},
	"a broken backend": {
		chain: []script{rejects(http.StatusInternalServerError)}, want: &exception{status: http.StatusBadGateway, says: "upstream_error"},
	},
	"no answer in a 200": {
		chain: []script{func(c *call) { c.answer(http.StatusOK, "{}") }}, want: &exception{status: http.StatusBadGateway, says: "response_validation_failed"},
	},
}

// broken are the scenarios in which the error comes when the stream has begun.
var broken = map[string]scenario{
	"a backend that puts an error behind its tokens": {
		stream: true, early: true, chain: []script{crashes}, direct: crashes, text: textTold, want: &exception{says: "stream_failed"},
	},
	"a backend whose connection is cut behind its tokens": {
		stream: true, early: true, chain: []script{dropsLate}, text: textTold, want: &exception{says: "stream_incomplete"},
	},
	"a backend that ends without a finish reason": {
		stream: true, early: true, chain: []script{endsLate}, text: textTold, want: &exception{says: "stream_incomplete"},
	},
	"a backend that goes silent behind its tokens": {
		stream: true, early: true, idle: "1500ms", chain: []script{stops}, text: textTold, want: &exception{says: "stream_idle"},
	},
	"a backend that is not done when the request's time is over": {
		stream: true, early: true, budget: "8s", chain: []script{stops}, text: textTold, want: &exception{says: "request_deadline_exceeded"},
	},
	"a backend that says behind its tokens that its response failed": {
		stream: true, early: true, only: responsesClients, chain: []script{failsLate}, text: textTold, want: &exception{says: "stream_failed"},
	},
	"a backend that breaks when the status line is out": {
		stream: true, early: true, chain: []script{rejectsLate(http.StatusInternalServerError)}, want: &exception{says: "upstream_error"},
	},
	"two backends of which the second breaks when the status line is out": {
		stream: true, early: true, impatient: true, chain: []script{goesSilent, rejectsLate(http.StatusInternalServerError)},
		want: &exception{says: "upstream_error"},
	},
	"a backend that rejects when the status line is out": {
		stream: true, early: true, chain: []script{rejectsLate(http.StatusBadRequest)}, want: &exception{says: rejectionTold},
	},
	"a comment with an empty line behind it, which this version takes for an event": {
		stream: true, early: true, form: block, only: []string{openaiGoOld, openaiGoOldCompletions, openaiGoOldResponses},
		chain: []script{streamsSlowly}, want: &exception{says: "unexpected end of JSON input", class: "*json.SyntaxError"},
	},
}
