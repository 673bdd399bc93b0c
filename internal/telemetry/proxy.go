package telemetry

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/table"
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
	// noRoute counts requests that resolved to no route.
	noRoute *RouteSeries
	// unseen takes what the last requests of a route that is gone count: nobody reads it.
	unseen *BackendSeries
}

// NewProxy declares the data plane's metrics and registers them with reg. It panics where one is registered already, as
// MustRegister does.
func NewProxy(reg prometheus.Registerer) *Proxy {
	p := &Proxy{
		requests: requestsTotal.counters(), duration: requestDuration.histograms(), ttft: timeToFirstToken.histograms(),
		attempts: attemptsTotal.counters(), saturated: saturatedTotal.counters(), transitions: transitionsTotal.counters(),
		heartbeats: heartbeatsTotal.counters(), rateLimited: rateLimitedTotal.counters(), queueDepth: queueDepth.gauges(),
		tokens: tokensTotal.counters(), queueRejected: queueRejectedTotal.counter(), queueWait: queueWait.histogram(),
		inFlight: inFlight.gauge(), overhead: overhead.histogram(),
	}
	p.noRoute = &RouteSeries{p: p}
	p.unseen = &BackendSeries{
		duration: requestDuration.histogram(), ttft: timeToFirstToken.histogram(), saturated: saturatedTotal.counter(),
		queueDepth: queueDepth.gauge(), prompt: tokensTotal.counter(), completion: tokensTotal.counter(),
	}
	p.unseen.gone.Store(true)
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
		return p.noRoute
	}
	if s, ok := p.routes.Load(r.Model); ok {
		return s.(*RouteSeries)
	}
	s, _ := p.routes.LoadOrStore(r.Model, &RouteSeries{p: p, model: r.Model})
	return s.(*RouteSeries)
}

// Retain deletes the series of routes and backends that the table no longer names. What a request that still runs on an older
// table counts is dropped with them: it would bring them back for good.
func (p *Proxy) Retain(t *table.Table) {
	p.routes.Range(func(key, value any) bool {
		model, series := key.(string), value.(*RouteSeries)
		route := t.ByModel(model)
		if route == nil {
			p.routes.Delete(model)
			series.gone.Store(true)
			series.forgetBackends(nil)
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
	gone := map[owner]bool{}
	for _, labels := range labelsOf(p.transitions) {
		gone[owner{labels[labelNamespace], labels[labelBackend]}] = true
	}
	for _, r := range t.Routes() {
		if len(gone) == 0 {
			return // few backends ever have a transition
		}
		for i := range r.Chain {
			delete(gone, owner{r.Namespace, r.Chain[i].Name})
		}
	}
	for o := range gone {
		p.transitions.DeletePartialMatch(prometheus.Labels{labelNamespace: o.namespace, labelBackend: o.backend})
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
	gone     atomic.Bool // from the table
	backends sync.Map    // name -> *BackendSeries
}

// Request counts an answered request; code is its HTTP status.
func (s *RouteSeries) Request(endpoint string, code int) {
	if !s.gone.Load() {
		s.p.requests.WithLabelValues(s.model, endpoint, statusText(code)).Inc()
	}
}

// Heartbeat counts a comment that was written.
func (s *RouteSeries) Heartbeat(state string) {
	if !s.gone.Load() {
		s.p.heartbeats.WithLabelValues(s.model, state).Inc()
	}
}

// RateLimited counts a request over the route's rate limit.
func (s *RouteSeries) RateLimited() {
	if !s.gone.Load() {
		s.p.rateLimited.WithLabelValues(s.model).Inc()
	}
}

// Backend returns the series of one backend of the chain.
func (s *RouteSeries) Backend(name string) *BackendSeries {
	if s.gone.Load() {
		return s.p.unseen
	}
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

// forgetBackends drops the series of backends that left the chain, all where r is nil, and returns their names.
func (s *RouteSeries) forgetBackends(r *table.Route) []string {
	var gone []string
	s.backends.Range(func(key, value any) bool {
		if name := key.(string); r == nil || r.Backend(name) == nil {
			s.backends.Delete(name)
			value.(*BackendSeries).gone.Store(true)
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
	gone               atomic.Bool // from the table
	duration, ttft     prometheus.Observer
	saturated          prometheus.Counter
	queueDepth         prometheus.Gauge
	prompt, completion prometheus.Counter
}

// Attempt counts one attempt; outcome is the name of its class.
func (s *BackendSeries) Attempt(outcome string) {
	if !s.gone.Load() {
		s.p.attempts.WithLabelValues(s.model, s.name, outcome).Inc()
	}
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
