package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/spillway-dev/spillway/internal/telemetry"
)

// stopWithin bounds the sending of the last spans.
const stopWithin = 5 * time.Second

// Config of Start. Log is required.
type Config struct {
	Service  string // service.name, unless OTEL_SERVICE_NAME says another
	Version  string // service.version
	Instance string // service.instance.id; may be empty
	// Getenv reads the environment, as os.Getenv does. The SDK reads the process's own.
	Getenv func(string) string
	Log    *slog.Logger
}

// Start returns a tracer that sends spans where the environment says, and stop, which sends the rest within a few seconds.
// Without an endpoint the tracer is nil and nothing runs. An error is about the environment, and for the person who set it.
func Start(ctx context.Context, cfg Config) (tracer *telemetry.Tracer, stop func(), err error) {
	s, err := read(cfg.Getenv)
	if err != nil || !s.on {
		return nil, func() {}, err
	}
	// What the SDK says by itself may quote addresses, so only the kind of it is told.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		cfg.Log.Warn("traces: the SDK reports a problem", "type", fmt.Sprintf("%T", err))
	}))
	otel.SetLogger(logr.Discard())
	client := otlptracehttp.NewClient()
	if s.protocol == protocolGRPC {
		client = otlptracegrpc.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, func() {}, errors.New("the exporter of traces cannot be made from the OTEL_EXPORTER_OTLP_* variables")
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(semconv.ServiceName(cfg.Service),
		semconv.ServiceVersion(cfg.Version), semconv.ServiceInstanceID(cfg.Instance)), resource.WithFromEnv())
	if err != nil {
		return nil, func() {}, errors.New("OTEL_RESOURCE_ATTRIBUTES: want key=value pairs with commas between them")
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(&watched{SpanExporter: exporter, log: cfg.Log}))
	cfg.Log.Info("traces are sent", "protocol", s.protocol)
	return telemetry.NewTracer(provider), func() { shutDown(provider, cfg.Log) }, nil
}

func shutDown(provider *sdktrace.TracerProvider, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := provider.Shutdown(ctx); err != nil {
		log.Warn("traces: the last spans could not be sent", "type", fmt.Sprintf("%T", err))
	}
}
