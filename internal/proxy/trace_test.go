package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// traced makes a rig's requests leave spans in the recorder that it returns.
func traced(options ...sdktrace.TracerProviderOption) (*tracetest.SpanRecorder, func(*proxy.Config)) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	return recorder, func(cfg *proxy.Config) { cfg.Tracer = telemetry.NewTracer(provider) }
}

// factsOf is what a span says, one fact a line, sorted; what differs from run to run is left out.
func factsOf(span sdktrace.ReadOnlySpan) string {
	var facts []string
	for _, kv := range span.Attributes() {
		switch key := string(kv.Key); key {
		case "spillway.request_id", "gen_ai.response.time_to_first_chunk", "gen_ai.operation.name", "gen_ai.provider.name",
			"http.request.method", "http.route", "spillway.endpoint":
		default:
			facts = append(facts, key+"="+kv.Value.String())
		}
	}
	for _, e := range span.Events() {
		text := "event " + e.Name
		for _, kv := range e.Attributes {
			text += " " + string(kv.Key) + "=" + kv.Value.String()
		}
		facts = append(facts, text)
	}
	if s := span.Status(); s.Code != codes.Unset {
		facts = append(facts, "status "+s.Code.String()+" "+s.Description)
	}
	slices.Sort(facts)
	return span.Name() + "\n  " + strings.Join(facts, "\n  ")
}

func TestSpansTellWhatBecameOfARequest(t *testing.T) {
	good := func(t *testing.T) *upstream { return says(t, status(200, "", whole)) }
	cases := map[string]struct {
		backends func(t *testing.T) []*upstream
		change   func(*table.Route)
		body     string
		header   []string
		want     []string
	}{
		"an answer at the first try": {
			backends: func(t *testing.T) []*upstream { return []*upstream{good(t)} },
			body:     unary,
			want: []string{`attempt
  gen_ai.request.model=physical-a
  gen_ai.usage.input_tokens=2
  gen_ai.usage.output_tokens=1
  http.response.status_code=200
  spillway.attempt=1
  spillway.backend=a
  spillway.outcome=success
  spillway.regime=unknown`, `POST /v1/chat/completions
  gen_ai.request.model=ns/m
  gen_ai.request.stream=false
  gen_ai.usage.input_tokens=2
  gen_ai.usage.output_tokens=1
  http.response.status_code=200
  spillway.attempts=1
  spillway.backend=a
  spillway.reason=first
  spillway.route=ns/m`},
		},
		"a stream that falls over from a full backend, with a wish": {
			backends: func(t *testing.T) []*upstream {
				return []*upstream{says(t, status(429, "Retry-After: 5\r\n", `{"error":{"message":"busy"}}`)), says(t, sseHead, c("hi"), fin, done)}
			},
			body: streamed, header: []string{"X-Prefer-Backend", "elsewhere"},
			want: []string{`attempt
  error.type=backend_saturated
  gen_ai.request.model=physical-a
  http.response.status_code=429
  spillway.attempt=1
  spillway.backend=a
  spillway.cause=full, loading or throttling (status 429)
  spillway.outcome=refused
  spillway.regime=saturated
  status Error backend_saturated`, `attempt
  gen_ai.request.model=physical-b
  http.response.status_code=200
  spillway.attempt=2
  spillway.backend=b
  spillway.outcome=success
  spillway.regime=unknown`, `POST /v1/chat/completions
  event dispatch.backend_saturated spillway.backend=a spillway.failing_over=true
  event request.backend_preference spillway.preference.asked=elsewhere spillway.preference.result=not-in-chain
  event stream.heartbeat spillway.heartbeat.state=attempt
  event stream.heartbeat spillway.heartbeat.state=attempt
  event stream.heartbeat spillway.heartbeat.state=backend_saturated
  event stream.heartbeat spillway.heartbeat.state=upstream_started
  gen_ai.request.model=ns/m
  gen_ai.request.stream=true
  http.response.status_code=200
  spillway.attempts=2
  spillway.backend=b
  spillway.cause=full, loading or throttling (status 429)
  spillway.reason=saturated
  spillway.route=ns/m`},
		},
		"a rejection is the backend's error, and no fault of the request's server": {
			backends: func(t *testing.T) []*upstream {
				return []*upstream{says(t, status(422, "", `{"error":{"message":"no"}}`))}
			},
			body: unary,
			want: []string{`attempt
  error.type=upstream_request_rejected
  gen_ai.request.model=physical-a
  http.response.status_code=422
  spillway.attempt=1
  spillway.backend=a
  spillway.cause=the request was rejected (status 422)
  spillway.outcome=rejected
  spillway.regime=unknown
  status Error upstream_request_rejected`, `POST /v1/chat/completions
  error.type=upstream_request_rejected
  gen_ai.request.model=ns/m
  gen_ai.request.stream=false
  http.response.status_code=422
  spillway.attempts=1
  spillway.cause=the request was rejected (status 422)
  spillway.route=ns/m`},
		},
		"a chain that is exhausted is an error": {
			backends: func(t *testing.T) []*upstream { return []*upstream{newUpstream(t, func(_ int, w *wire) { w.reset() })} },
			body:     unary,
			want: []string{`attempt
  error.type=upstream_transport_failed
  gen_ai.request.model=physical-a
  spillway.attempt=1
  spillway.backend=a
  spillway.cause=connection reset
  spillway.outcome=failed
  spillway.regime=unknown
  status Error upstream_transport_failed`, `POST /v1/chat/completions
  error.type=upstream_error
  gen_ai.request.model=ns/m
  gen_ai.request.stream=false
  http.response.status_code=502
  spillway.attempts=1
  spillway.cause=connection reset
  spillway.route=ns/m
  status Error upstream_error`},
		},
		"a stream that breaks after its 200 is an error": {
			backends: func(t *testing.T) []*upstream { return []*upstream{says(t, sseHead, c("hi"))} },
			body:     streamed,
			want: []string{`attempt
  error.type=stream_incomplete
  gen_ai.request.model=physical-a
  http.response.status_code=200
  spillway.attempt=1
  spillway.backend=a
  spillway.cause=the stream ended early
  spillway.outcome=broken
  spillway.regime=unknown
  status Error stream_incomplete`, `POST /v1/chat/completions
  error.type=stream_incomplete
  event stream.heartbeat spillway.heartbeat.state=attempt
  event stream.heartbeat spillway.heartbeat.state=upstream_started
  gen_ai.request.model=ns/m
  gen_ai.request.stream=true
  http.response.status_code=502
  spillway.attempts=1
  spillway.backend=a
  spillway.cause=the stream ended early
  spillway.reason=first
  spillway.route=ns/m
  status Error stream_incomplete`},
		},
		"a model that nobody serves is not named": {
			backends: func(t *testing.T) []*upstream { return []*upstream{good(t)} },
			body:     `{"model":"ns/none"}`,
			want: []string{`POST /v1/chat/completions
  error.type=model_not_found
  http.response.status_code=404
  spillway.attempts=0`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := newRoute(tc.backends(t)...)
			route.Chain[0].Failure.Threshold = 100
			recorder, tracing := traced()
			r := newRig(t, route, tracing)
			r.post(tc.body, tc.header...)
			waitFor(t, func() bool { return len(recorder.Ended()) == len(tc.want) })
			var got []string
			for _, span := range recorder.Ended() {
				got = append(got, factsOf(span))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTraceOfTheCallerGoesOnAtTheBackend(t *testing.T) {
	const (
		traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
		parentID = "00f067aa0ba902b7"
	)
	cases := map[string]struct {
		header  []string
		sampler sdktrace.Sampler
		goesOn  bool
		flags   string
		state   string
		spans   int
	}{
		"sampled by the caller": {[]string{"Traceparent", "00-" + traceID + "-" + parentID + "-01", "Tracestate", "vendor=1"},
			sdktrace.ParentBased(sdktrace.NeverSample()), true, "01", "vendor=1", 2},
		"left out by the caller": {[]string{"Traceparent", "00-" + traceID + "-" + parentID + "-00"},
			sdktrace.ParentBased(sdktrace.AlwaysSample()), true, "00", "", 0},
		"a trace that cannot be read, with a state that belongs to nothing": {[]string{"Traceparent", "00-zz-" + parentID + "-01", "Tracestate", "vendor=1"},
			sdktrace.AlwaysSample(), false, "01", "", 2},
		"no trace": {nil, sdktrace.AlwaysSample(), false, "01", "", 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			backend := says(t, status(200, "", whole))
			recorder, tracing := traced(sdktrace.WithSampler(tc.sampler))
			r := newRig(t, newRoute(backend), tracing)
			r.post(unary, tc.header...)
			waitFor(t, func() bool {
				return strings.Contains(r.log.String(), `"msg":"request"`) && len(recorder.Ended()) == tc.spans
			})

			parts := strings.Split(backend.requests()[0].header.Get("Traceparent"), "-")
			if len(parts) != 4 || parts[3] != tc.flags || (parts[1] == traceID) != tc.goesOn || parts[2] == parentID {
				t.Fatalf("traceparent at the backend = %v", parts)
			}
			if got := backend.requests()[0].header.Get("Tracestate"); got != tc.state {
				t.Errorf("tracestate at the backend = %q, want %q", got, tc.state)
			}
			if tc.spans == 0 {
				return
			}
			attempt, request := recorder.Ended()[0], recorder.Ended()[1]
			if got := attempt.SpanContext().SpanID().String(); got != parts[2] {
				t.Errorf("the backend was told of span %s, the attempt is %s", parts[2], got)
			}
			if attempt.Parent().SpanID() != request.SpanContext().SpanID() || attempt.SpanKind() != trace.SpanKindClient || request.SpanKind() != trace.SpanKindServer {
				t.Errorf("the attempt is no client span under the request's server span")
			}
			if tc.goesOn && request.Parent().SpanID().String() != parentID {
				t.Errorf("the request's parent = %s, want the caller's span", request.Parent().SpanID())
			}
			if want := fmt.Sprintf(`"trace_id":%q`, parts[1]); !strings.Contains(r.log.String(), want) {
				t.Errorf("the access line lacks %s", want)
			}
		})
	}
}

func TestWithoutATracerTheCallersTraceIsPassedOn(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	backend := says(t, status(200, "", whole))
	newRig(t, newRoute(backend)).post(unary, "Traceparent", parent, "Tracestate", "vendor=1")
	h := backend.requests()[0].header
	if h.Get("Traceparent") != parent || h.Get("Tracestate") != "vendor=1" {
		t.Errorf("trace at the backend = %q, %q", h.Get("Traceparent"), h.Get("Tracestate"))
	}
}

func TestQueueWaitIsASpanThatEndsAtDequeue(t *testing.T) {
	for _, body := range []string{unary, streamed} {
		release := make(chan struct{})
		backend := newUpstream(t, func(n int, w *wire) {
			if n == 0 {
				w.until(release)
			} else {
				w.pause(20 * time.Millisecond)
			}
			w.send(status(200, "", whole))
		})
		route := newRoute(backend)
		route.Chain[0].MaxInFlight, route.Queue = 1, table.Queue{Length: 1, MaxWait: time.Minute}
		recorder, tracing := traced()
		r := newRig(t, route, tracing)
		ended := make(chan struct{}, 2)
		go func() { r.post(unary); ended <- struct{}{} }()
		waitFor(t, func() bool { return backend.count() == 1 })
		go func() { r.post(body); ended <- struct{}{} }()
		waitFor(t, func() bool { return gauge(t, r, "llm_queue_depth") == 1 })
		close(release)
		<-ended
		<-ended
		waitFor(t, func() bool { return len(recorder.Ended()) == 5 })

		var wait, second sdktrace.ReadOnlySpan
		for _, span := range recorder.Ended() {
			if span.Name() == telemetry.SpanQueueWait {
				wait = span
			}
		}
		if wait == nil {
			t.Fatal("no span of the queue")
		}
		for _, span := range recorder.Ended() {
			if span.Name() == telemetry.SpanAttempt && span.Parent().SpanID() == wait.Parent().SpanID() {
				second = span
			}
		}
		if second == nil || wait.EndTime().After(second.StartTime()) || !wait.StartTime().Before(wait.EndTime()) {
			t.Errorf("the wait %v is no sibling that ends before the attempt %v begins", wait, second)
		}
		if want := "queue.wait\n  spillway.admitted=true\n  spillway.backend=a"; factsOf(wait) != want {
			t.Errorf("span = %s, want %s", factsOf(wait), want)
		}
	}
}

// gauge is the sum of a metric's samples.
func gauge(t *testing.T, r *rig, name string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestRefusedPathsLeaveASpanWithoutThePath(t *testing.T) {
	recorder, tracing := traced()
	r := newRig(t, newRoute(says(t)), tracing)
	req, err := http.NewRequestWithContext(t.Context(), "SECRETWORD", r.server.URL+"/v1/secret?secret", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	finish(resp)
	waitFor(t, func() bool { return len(recorder.Ended()) == 1 })
	want := "_OTHER\n  error.type=invalid_request\n  http.response.status_code=404\n  spillway.attempts=0"
	if got := factsOf(recorder.Ended()[0]); got != want {
		t.Errorf("span = %s, want %s", got, want)
	}
}
