package telemetry

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/table"
)

// Labels that several metrics share.
const (
	labelModel     = "logical_model"
	labelBackend   = "backend"
	labelNamespace = "namespace"
	labelState     = "state"
)

var (
	// Answers take from milliseconds (an embedding) to minutes (a long generation).
	secondsOfAnswer = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}
	// The proxy's own share of a request is far below a millisecond when all is well.
	secondsOfOverhead = []float64{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1}
	// Waiting in a queue ends with maxWait, 30 s unless somebody asked for more.
	secondsOfQueue = []float64{0.001, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120}
)

// Proxy holds the metrics of the data plane. Its methods are safe for concurrent use.
type Proxy struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	ttft        *prometheus.HistogramVec
	attempts    *prometheus.CounterVec
	saturated   *prometheus.CounterVec
	transitions *prometheus.CounterVec
	heartbeats  *prometheus.CounterVec
	rateLimited *prometheus.CounterVec
	queueDepth  *prometheus.GaugeVec
	tokens      *prometheus.CounterVec

	queueRejected prometheus.Counter
	queueWait     prometheus.Histogram
	inFlight      prometheus.Gauge
	overhead      prometheus.Histogram

	routes sync.Map // logical model -> *RouteSeries
	// nobody counts requests that resolved to no route.
	nobody *RouteSeries
}

// NewProxy declares the data plane's metrics and registers them with reg. It panics where one is registered already, as
// MustRegister does.
func NewProxy(reg prometheus.Registerer) *Proxy {
	p := &Proxy{
		requests: counters("llm_requests_total",
			"Requests answered, by logical model (empty where the request named none that exists), endpoint and HTTP status.", labelModel, "endpoint", "code"),
		duration: histograms("llm_request_duration_seconds",
			"Time from the end of the request's headers to the last byte of the answer, by the backend that answered.", secondsOfAnswer, labelModel, labelBackend),
		ttft: histograms("llm_time_to_first_token_seconds",
			"Time from the request to the first token (for a non-streaming request: the whole answer), by the backend that answered.", secondsOfAnswer, labelModel, labelBackend),
		attempts: counters("llm_attempts_total",
			"Attempts at a backend, by how they ended.", labelModel, labelBackend, "outcome"),
		saturated: counters("llm_backend_saturated_total",
			"Attempts given up because the backend showed no first token in time, or said that it is full.", labelModel, labelBackend),
		transitions: counters("llm_breaker_transitions_total",
			"Changes of a breaker's state seen by this proxy, its own and adopted ones.", labelNamespace, labelBackend, "to", "reason"),
		heartbeats: counters("llm_stream_heartbeats_total",
			"Comments written to streaming callers, by state.", labelModel, labelState),
		rateLimited: counters("llm_rate_limited_total",
			"Requests refused by the route's rate limit.", labelModel),
		queueDepth: gauges("llm_queue_depth",
			"Callers that wait for a slot of a backend with maxInFlight.", labelModel, labelBackend),
		tokens: counters("llm_tokens_total",
			"Tokens as the backends report them in usage, by kind: prompt or completion.", labelModel, labelBackend, "kind"),
		queueRejected: prometheus.NewCounter(prometheus.CounterOpts{Name: "llm_queue_rejected_total",
			Help: "Requests refused because every queue was full."}),
		queueWait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "llm_queue_wait_seconds",
			Help: "Time spent waiting for a backend's slot, for those that had to wait.", Buckets: secondsOfQueue}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "llm_in_flight_requests",
			Help: "Requests being served now."}),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "llm_proxy_overhead_seconds",
			Help: "Part of a request's duration that was neither a backend's, the queue's nor the caller's.", Buckets: secondsOfOverhead}),
	}
	p.nobody = &RouteSeries{p: p}
	reg.MustRegister(p.requests, p.duration, p.ttft, p.attempts, p.saturated, p.transitions, p.heartbeats, p.rateLimited,
		p.queueDepth, p.tokens, p.queueRejected, p.queueWait, p.inFlight, p.overhead)
	return p
}

// InFlight counts a request as being served until done is called.
func (p *Proxy) InFlight() (done func()) {
	p.inFlight.Inc()
	return p.inFlight.Dec
}

// Overhead records the part of a request that was the proxy's own.
func (p *Proxy) Overhead(d time.Duration) { p.overhead.Observe(d.Seconds()) }

// QueueRejected counts a request that found every queue full.
func (p *Proxy) QueueRejected() { p.queueRejected.Inc() }

// QueueWait records how long a caller waited for a slot.
func (p *Proxy) QueueWait(d time.Duration) { p.queueWait.Observe(d.Seconds()) }

// Transition counts a change of state of the breaker of a backend, by the name that the table gives it.
func (p *Proxy) Transition(namespace, backend, to, reason string) {
	p.transitions.WithLabelValues(namespace, backend, to, reason).Inc()
}

// Route returns the series of the route that serves a logical model; nil stands for "no such route".
func (p *Proxy) Route(r *table.Route) *RouteSeries {
	if r == nil {
		return p.nobody
	}
	if s, ok := p.routes.Load(r.Model); ok {
		return s.(*RouteSeries)
	}
	s, _ := p.routes.LoadOrStore(r.Model, &RouteSeries{p: p, model: r.Model})
	return s.(*RouteSeries)
}

// Retain deletes the series of routes and backends that the table no longer names. A request that still runs on an older
// table keeps counting into series that nobody exposes any more.
func (p *Proxy) Retain(t *table.Table) {
	p.routes.Range(func(key, value any) bool {
		model, series := key.(string), value.(*RouteSeries)
		route := t.ByModel(model)
		if route == nil {
			p.routes.Delete(model)
			p.drop(prometheus.Labels{labelModel: model})
			return true
		}
		for _, backend := range series.forgetBackends(route) {
			p.drop(prometheus.Labels{labelModel: model, labelBackend: backend})
		}
		return true
	})
	p.retainTransitions(t)
}

// retainTransitions drops the breaker series of backends that no route of their namespace names.
func (p *Proxy) retainTransitions(t *table.Table) {
	type owner struct{ namespace, backend string }
	named := map[owner]bool{}
	for _, r := range t.Routes() {
		for i := range r.Chain {
			named[owner{r.Namespace, r.Chain[i].Name}] = true
		}
	}
	for _, labels := range labelsOf(p.transitions) {
		o := owner{labels[labelNamespace], labels[labelBackend]}
		if !named[o] {
			p.transitions.DeletePartialMatch(prometheus.Labels{labelNamespace: o.namespace, labelBackend: o.backend})
		}
	}
}

func (p *Proxy) drop(labels prometheus.Labels) {
	for _, vec := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{p.duration, p.ttft, p.attempts, p.saturated, p.queueDepth, p.tokens} {
		vec.DeletePartialMatch(labels)
	}
	if _, one := labels[labelBackend]; one {
		return // the rest has no label for the backend
	}
	p.requests.DeletePartialMatch(labels)
	p.heartbeats.DeletePartialMatch(labels)
	p.rateLimited.DeletePartialMatch(labels)
}

// RouteSeries counts for one route. The zero route, of requests that resolved to none, counts requests only.
type RouteSeries struct {
	p        *Proxy
	model    string
	backends sync.Map // name -> *BackendSeries
}

// Request counts an answered request; code is its HTTP status.
func (s *RouteSeries) Request(endpoint string, code int) {
	s.p.requests.WithLabelValues(s.model, endpoint, statusText(code)).Inc()
}

// Heartbeat counts a comment that was written.
func (s *RouteSeries) Heartbeat(state string) { s.p.heartbeats.WithLabelValues(s.model, state).Inc() }

// RateLimited counts a request over the route's rate limit.
func (s *RouteSeries) RateLimited() { s.p.rateLimited.WithLabelValues(s.model).Inc() }

// Backend returns the series of one backend of the chain.
func (s *RouteSeries) Backend(name string) *BackendSeries {
	if b, ok := s.backends.Load(name); ok {
		return b.(*BackendSeries)
	}
	p, model := s.p, s.model
	b, _ := s.backends.LoadOrStore(name, &BackendSeries{
		p: p, model: model, name: name,
		duration:   p.duration.WithLabelValues(model, name),
		ttft:       p.ttft.WithLabelValues(model, name),
		saturated:  p.saturated.WithLabelValues(model, name),
		queueDepth: p.queueDepth.WithLabelValues(model, name),
		prompt:     p.tokens.WithLabelValues(model, name, "prompt"),
		completion: p.tokens.WithLabelValues(model, name, "completion"),
	})
	return b.(*BackendSeries)
}

// forgetBackends drops the series of backends that left the chain and returns their names.
func (s *RouteSeries) forgetBackends(r *table.Route) []string {
	var gone []string
	s.backends.Range(func(key, _ any) bool {
		if name := key.(string); r.Backend(name) == nil {
			s.backends.Delete(name)
			gone = append(gone, name)
		}
		return true
	})
	return gone
}

// BackendSeries counts for one backend of one route.
type BackendSeries struct {
	p                  *Proxy
	model, name        string
	duration, ttft     prometheus.Observer
	saturated          prometheus.Counter
	queueDepth         prometheus.Gauge
	prompt, completion prometheus.Counter
}

// Attempt counts one attempt; outcome is the name of its class.
func (s *BackendSeries) Attempt(outcome string) {
	s.p.attempts.WithLabelValues(s.model, s.name, outcome).Inc()
}

// Saturated counts an attempt that was given up because of saturation.
func (s *BackendSeries) Saturated() { s.saturated.Inc() }

// FirstToken records the time from the request to its first token.
func (s *BackendSeries) FirstToken(d time.Duration) { s.ttft.Observe(d.Seconds()) }

// Duration records how long the whole request took.
func (s *BackendSeries) Duration(d time.Duration) { s.duration.Observe(d.Seconds()) }

// Tokens adds what the backend reported as usage; zeros add nothing.
func (s *BackendSeries) Tokens(prompt, completion int64) {
	s.prompt.Add(float64(max(prompt, 0)))
	s.completion.Add(float64(max(completion, 0)))
}

// Waiting counts a caller in the backend's queue until done is called.
func (s *BackendSeries) Waiting() (done func()) {
	s.queueDepth.Inc()
	return s.queueDepth.Dec
}

// statusText spares the common statuses a conversion.
func statusText(code int) string {
	switch code {
	case 200:
		return "200"
	case 429:
		return "429"
	case 503:
		return "503"
	}
	return strconv.Itoa(code)
}
