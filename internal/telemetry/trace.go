package telemetry

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Names of spans and events. docs/tracing-and-logs.md explains them.
const (
	SpanQueueWait = "queue.wait"
	SpanAttempt   = "attempt"
	SpanProbe     = "probe"

	EventHeartbeat  = "stream.heartbeat"
	EventSaturated  = "dispatch.backend_saturated"
	EventPreference = "request.backend_preference"
)

// Attributes of our own; the rest are OpenTelemetry's for HTTP and generative AI.
const (
	attrRequestID        = attribute.Key("spillway.request_id")
	attrEndpoint         = attribute.Key("spillway.endpoint")
	attrRoute            = attribute.Key("spillway.route")
	attrBackend          = attribute.Key("spillway.backend")
	attrAttempts         = attribute.Key("spillway.attempts")
	attrReason           = attribute.Key("spillway.reason")
	attrN                = attribute.Key("spillway.attempt")
	attrOutcome          = attribute.Key("spillway.outcome")
	attrRegime           = attribute.Key("spillway.regime")
	attrCause            = attribute.Key("spillway.cause")
	attrAdmitted         = attribute.Key("spillway.admitted")
	attrState            = attribute.Key("spillway.heartbeat.state")
	attrFailingOver      = attribute.Key("spillway.failing_over")
	attrProbeKind        = attribute.Key("spillway.probe.kind")
	attrPreferenceAsked  = attribute.Key("spillway.preference.asked")
	attrPreferenceResult = attribute.Key("spillway.preference.result")
)

// TraceNames returns all names of our own in traces: of spans, events and attributes.
func TraceNames() []string {
	names := []string{SpanQueueWait, SpanAttempt, SpanProbe, EventHeartbeat, EventSaturated, EventPreference}
	for _, key := range [...]attribute.Key{attrRequestID, attrEndpoint, attrRoute, attrBackend, attrAttempts, attrReason, attrN, attrOutcome,
		attrRegime, attrCause, attrAdmitted, attrState, attrFailingOver, attrProbeKind, attrPreferenceAsked, attrPreferenceResult} {
		names = append(names, string(key))
	}
	return names
}

// Tracer makes the spans of requests. A nil Tracer makes none: it returns a nil RequestSpan, whose methods do nothing, and
// that is all that tracing costs while it is off.
type Tracer struct {
	tracer trace.Tracer
	wire   propagation.TraceContext
}

// NewTracer returns a tracer whose spans go to the provider, which also decides what is sampled.
func NewTracer(provider trace.TracerProvider) *Tracer {
	return &Tracer{tracer: provider.Tracer("github.com/spillway-dev/spillway")}
}

// RequestSpan is the server span of one request. nil stands for tracing that is off. It belongs to the goroutine of the
// request.
type RequestSpan struct {
	tracer    *Tracer
	ctx       context.Context // the span, as the parent of others
	span      trace.Span
	operation attribute.KeyValue
	provider  attribute.KeyValue
}

// Request begins the span of a request, as a child of the trace that the caller names in its header, if it names one. The
// path is that of a known endpoint, else empty: what a caller invents is kept out of span names.
func (t *Tracer) Request(r *http.Request, path string, began time.Time) *RequestSpan {
	if t == nil {
		return nil
	}
	ctx := t.wire.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	method := knownMethod(r.Method)
	name := method
	attrs := []attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method)}
	if path != "" {
		name += " " + path
		attrs = append(attrs, semconv.HTTPRoute(path))
	}
	s := &RequestSpan{tracer: t, operation: operationOf(path), provider: providerOf(path)}
	s.ctx, s.span = t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began),
		trace.WithAttributes(attrs...))
	return s
}

// knownMethod is the method in a span: any word may come from a caller.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "_OTHER"
}

func operationOf(path string) attribute.KeyValue {
	switch path {
	case "/v1/embeddings":
		return semconv.GenAIOperationNameEmbeddings
	case "/v1/completions":
		return semconv.GenAIOperationNameTextCompletion
	}
	return semconv.GenAIOperationNameChat
}

// providerOf names the dialect, which is what the conventions mean by a provider seen through a proxy.
func providerOf(path string) attribute.KeyValue {
	if path == "/v1/messages" {
		return semconv.GenAIProviderNameAnthropic
	}
	return semconv.GenAIProviderNameOpenAI
}

// TraceID is the id under which the trace is found; empty where the request is not sampled.
func (s *RequestSpan) TraceID() string {
	if s == nil || !s.span.IsRecording() {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Heartbeat notes a comment that was written to the caller.
func (s *RequestSpan) Heartbeat(state string) {
	if s != nil {
		s.span.AddEvent(EventHeartbeat, trace.WithAttributes(attrState.String(state)))
	}
}

// Saturated notes that a backend was given up because it is busy.
func (s *RequestSpan) Saturated(backend string, failingOver bool) {
	if s != nil {
		s.span.AddEvent(EventSaturated, trace.WithAttributes(attrBackend.String(backend), attrFailingOver.Bool(failingOver)))
	}
}

// Preference notes which backend the caller asked for and what became of it (applied, not-in-chain or ignored).
func (s *RequestSpan) Preference(asked, result string) {
	if s != nil {
		s.span.AddEvent(EventPreference, trace.WithAttributes(attrPreferenceAsked.String(asked), attrPreferenceResult.String(result)))
	}
}

// Queued records the time in a backend's queue. admitted says that a slot came of it.
func (s *RequestSpan) Queued(backend string, began, ended time.Time, admitted bool) {
	if s == nil {
		return
	}
	_, span := s.tracer.tracer.Start(s.ctx, SpanQueueWait, trace.WithTimestamp(began),
		trace.WithAttributes(attrBackend.String(backend), attrAdmitted.Bool(admitted)))
	span.End(trace.WithTimestamp(ended))
}

// End ends the span with what the access line says. model is the logical model, empty where none was found. A status of 500
// or more marks the span as an error, also one that took the place of a 200 within a stream; the caller's own mistakes and
// its leaving do not.
func (s *RequestSpan) End(now time.Time, model string, a *Access) {
	if s == nil {
		return
	}
	if s.span.IsRecording() {
		s.span.SetAttributes(s.facts(model, a)...)
		if a.Code >= http.StatusInternalServerError {
			s.span.SetStatus(codes.Error, a.Error)
		}
	}
	s.span.End(trace.WithTimestamp(now))
}

func (s *RequestSpan) facts(model string, a *Access) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attrRequestID.String(a.RequestID), attrEndpoint.String(a.Endpoint), attrAttempts.Int(a.Attempts),
		semconv.HTTPResponseStatusCode(a.Code),
	}
	if model != "" {
		attrs = append(attrs, s.operation, s.provider, semconv.GenAIRequestModel(model), semconv.GenAIRequestStream(a.Stream))
	}
	attrs = appendKnown(attrs, attrRoute, a.Route)
	attrs = appendKnown(attrs, attrBackend, a.Backend)
	attrs = appendKnown(attrs, attrReason, a.Reason)
	attrs = appendKnown(attrs, attrCause, a.Cause)
	attrs = appendKnown(attrs, semconv.ErrorTypeKey, a.Error)
	if a.TTFT > 0 {
		attrs = append(attrs, semconv.GenAIResponseTimeToFirstChunk(a.TTFT.Seconds()))
	}
	return appendTokens(attrs, a.Prompt, a.Completed)
}

func appendKnown(attrs []attribute.KeyValue, key attribute.Key, value string) []attribute.KeyValue {
	if value == "" {
		return attrs
	}
	return append(attrs, key.String(value))
}

func appendTokens(attrs []attribute.KeyValue, prompt, completion int64) []attribute.KeyValue {
	if prompt <= 0 && completion <= 0 {
		return attrs
	}
	return append(attrs, semconv.GenAIUsageInputTokens(int(prompt)), semconv.GenAIUsageOutputTokens(int(completion)))
}

// AttemptSpan is the client span of one attempt at one backend, or of one probe. nil stands for tracing that is off.
type AttemptSpan struct {
	tracer *Tracer
	ctx    context.Context
	span   trace.Span
}

// AttemptStart is what is known when an attempt begins.
type AttemptStart struct {
	N       int    // position in the plan, from 1
	Backend string // its name in the chain
	Model   string // the physical model
	Began   time.Time
}

// Attempt begins the span of an attempt.
func (s *RequestSpan) Attempt(a AttemptStart) *AttemptSpan {
	if s == nil {
		return nil
	}
	ctx, span := s.tracer.tracer.Start(s.ctx, SpanAttempt, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.Began),
		trace.WithAttributes(s.operation, s.provider, semconv.GenAIRequestModel(a.Model), attrN.Int(a.N), attrBackend.String(a.Backend)))
	return &AttemptSpan{tracer: s.tracer, ctx: ctx, span: span}
}

// Inject puts the attempt's place in the trace into the header for the backend, in place of the caller's.
func (s *AttemptSpan) Inject(h http.Header) {
	if s == nil {
		return
	}
	delete(h, "Tracestate") // one without a valid traceparent belongs to nothing
	s.tracer.wire.Inject(s.ctx, propagation.HeaderCarrier(h))
}

// AttemptEnd is how an attempt ended.
type AttemptEnd struct {
	Outcome string // the word of its class, as in llm_attempts_total
	Error   string // the code of what went wrong; empty for an answer, and where the caller left
	Status  int    // what the backend answered; 0 where nothing came
	Regime  string // the backend's, or "saturated" where it was
	Cause   string // in our own words, free of hosts

	Prompt, Completed int64 // tokens, from usage
}

// End ends the span. It is an error wherever the attempt did not end in an answer, apart from callers that left.
func (s *AttemptSpan) End(a AttemptEnd) {
	if s == nil {
		return
	}
	if s.span.IsRecording() {
		attrs := []attribute.KeyValue{attrOutcome.String(a.Outcome), attrRegime.String(a.Regime)}
		if a.Status != 0 {
			attrs = append(attrs, semconv.HTTPResponseStatusCode(a.Status))
		}
		attrs = appendKnown(attrs, attrCause, a.Cause)
		attrs = appendKnown(attrs, semconv.ErrorTypeKey, a.Error)
		s.span.SetAttributes(appendTokens(attrs, a.Prompt, a.Completed)...)
		if a.Error != "" {
			s.span.SetStatus(codes.Error, a.Error)
		}
	}
	s.span.End()
}
