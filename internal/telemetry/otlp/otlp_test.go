package otlp

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/spillway-dev/spillway/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEnvironment(t *testing.T) {
	const endpoint = "http://collector:4318"
	cases := map[string]struct {
		env     map[string]string
		want    settings
		problem string // in the error
	}{
		"nothing set is off":                      {env: nil},
		"an endpoint alone means HTTP":            {env: map[string]string{envEndpoint: endpoint}, want: settings{true, protocolHTTP}},
		"the endpoint of traces alone suffices":   {env: map[string]string{envTracesEndpoint: endpoint}, want: settings{true, protocolHTTP}},
		"gRPC":                                    {env: map[string]string{envEndpoint: endpoint, envProtocol: "grpc"}, want: settings{true, protocolGRPC}},
		"the protocol of traces is the one":       {env: map[string]string{envEndpoint: endpoint, envProtocol: "grpc", envTracesProtocol: protocolHTTP}, want: settings{true, protocolHTTP}},
		"an SDK that is disabled is off":          {env: map[string]string{envEndpoint: endpoint, envDisabled: "TRUE"}},
		"the exporter none is off":                {env: map[string]string{envEndpoint: endpoint, envExporter: "none"}},
		"another exporter is not there":           {env: map[string]string{envEndpoint: endpoint, envExporter: "zipkin"}, problem: envExporter},
		"another protocol is not there":           {env: map[string]string{envEndpoint: endpoint, envProtocol: "http/json"}, problem: envProtocol},
		"an endpoint that is no URL":              {env: map[string]string{envEndpoint: "collector:4317"}, problem: envEndpoint},
		"an endpoint that is damaged is not told": {env: map[string]string{envEndpoint: "http://user:secret@%zz"}, problem: envEndpoint},
		"a sampler that does not exist":           {env: map[string]string{envEndpoint: endpoint, envSampler: "sometimes"}, problem: envSampler},
		"a share that is none":                    {env: map[string]string{envEndpoint: endpoint, envSampler: "traceidratio", envSamplerArg: "2"}, problem: envSamplerArg},
		"a share":                                 {env: map[string]string{envEndpoint: endpoint, envSampler: "parentbased_traceidratio", envSamplerArg: "0.1"}, want: settings{true, protocolHTTP}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := read(func(name string) string { return tc.env[name] })
			switch {
			case tc.problem == "":
				if err != nil || got != tc.want {
					t.Errorf("settings = %+v, %v, want %+v", got, err, tc.want)
				}
			case err == nil || !strings.Contains(err.Error(), tc.problem+": want") || strings.Contains(err.Error(), "secret"):
				t.Errorf("error = %v, want one about %s", err, tc.problem)
			}
		})
	}
}

// sink collects the names of the spans that arrive, over HTTP or gRPC.
type sink struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names []string
}

func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				s.names = append(s.names, span.GetName())
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *sink) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if proto.Unmarshal(body, request) == nil && r.URL.Path == "/v1/traces" {
		_, _ = s.Export(r.Context(), request)
	}
}

// oneRequest leaves one span.
func oneRequest(tracer *telemetry.Tracer) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	tracer.Request(r, r.URL.Path, time.Now()).End(time.Now(), "ns/m", &telemetry.Access{Code: 200})
}

func TestSpansArriveBeforeStopReturns(t *testing.T) {
	for _, protocol := range []string{protocolHTTP, protocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &sink{}
			if protocol == protocolGRPC {
				server := grpc.NewServer()
				collector.RegisterTraceServiceServer(server, s)
				go func() { _ = server.Serve(ln) }()
				defer server.Stop()
			} else {
				server := &http.Server{Handler: s}
				go func() { _ = server.Serve(ln) }()
				defer server.Close()
			}
			t.Setenv(envEndpoint, "http://"+ln.Addr().String())
			t.Setenv(envProtocol, protocol)
			tracer, stop := start(t, slog.New(slog.DiscardHandler))
			oneRequest(tracer)
			stop()
			if len(s.names) != 1 || s.names[0] != "POST /v1/chat/completions" {
				t.Errorf("spans = %q", s.names)
			}
		})
	}
}

// start traces to what the environment names.
func start(t *testing.T, log *slog.Logger) (*telemetry.Tracer, func()) {
	t.Helper()
	tracer, stop, err := Start(t.Context(), Config{Service: "test", Version: "1", Getenv: os.Getenv, Log: log})
	if err != nil || tracer == nil {
		t.Fatalf("tracer = %v, %v", tracer, err)
	}
	return tracer, stop
}

func TestWithoutAnEndpointThereIsNoTracer(t *testing.T) {
	tracer, stop, err := Start(t.Context(), Config{Getenv: func(string) string { return "" }})
	if tracer != nil || err != nil {
		t.Errorf("tracer = %v, %v", tracer, err)
	}
	stop()
}

// A collector that never answers: requests go on, what does not fit into the queue is dropped, and stop has an end.
func TestACollectorThatIsSilentHoldsNobodyUp(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts by itself, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv(envEndpoint, "http://"+ln.Addr().String())
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
	var logged syncBuffer
	tracer, stop := start(t, telemetry.NewLogger(&logged, slog.LevelDebug))
	for range 10_000 {
		oneRequest(tracer)
	}
	stop()
	if log := logged.String(); !strings.Contains(log, "are lost") || strings.Contains(log, ln.Addr().String()) {
		t.Errorf("log = %s, want that spans are lost, without an address", log)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
