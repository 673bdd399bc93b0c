package telemetry

import (
	"context"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// ProbeStart is what is known when the proxy asks a backend by itself.
type ProbeStart struct {
	Kind    string // why: recovery, suspicion or cold-start
	Backend string // its name in the chain of the first route that names it
	Model   string // the physical model
	Path    string // of the endpoint, which says in what dialect
	Began   time.Time
}

// Probe begins the span of a probe. It is the root of a trace of its own: no caller waits for it.
func (t *Tracer) Probe(p ProbeStart) *AttemptSpan {
	if t == nil {
		return nil
	}
	ctx, span := t.tracer.Start(context.Background(), SpanProbe, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(p.Began), trace.WithAttributes(operationOf(p.Path), providerOf(p.Path),
			semconv.GenAIRequestModel(p.Model), attrProbeKind.String(p.Kind), attrBackend.String(p.Backend)))
	return &AttemptSpan{tracer: t, ctx: ctx, span: span}
}
