// Package otlp sends the spans of internal/telemetry to an OpenTelemetry collector, as the standard environment variables
// say. It is apart from its parent so that only the program that traces is built with the exporters.
//
// Spans wait in a bounded queue, from which a goroutine of the SDK sends them in batches: a collector that is slow or gone
// costs spans, never requests.
package otlp
