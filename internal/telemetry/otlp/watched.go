package otlp

import (
	"context"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// complainEvery is how often lost spans are told of.
const complainEvery = time.Minute

// watched is an exporter whose failures are logged, seldom and without the text of the error: that names the collector.
// The SDK calls it from one goroutine at a time.
type watched struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	said time.Time
	lost int
}

// ExportSpans sends spans. It reports no error: it is logged here, and nobody could do more about it.
func (w *watched) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := w.SpanExporter.ExportSpans(ctx, spans); err == nil {
		return nil
	}
	w.lost += len(spans)
	if now := time.Now(); w.said.IsZero() || now.Sub(w.said) >= complainEvery {
		w.log.Warn("traces: spans could not be sent to the collector and are lost", "spans", w.lost)
		w.said, w.lost = now, 0
	}
	return nil
}
