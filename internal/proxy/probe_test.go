package proxy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestProbesLeaveTracesOfTheirOwn(t *testing.T) {
	cases := map[string]struct {
		purpose breaker.Purpose
		says    []string
		want    string
	}{
		"a backend that is well again": {breaker.Recovery, []string{sseHead, c("hi"), fin, done}, `probe
  gen_ai.request.model=physical-a
  spillway.backend=a
  spillway.outcome=success
  spillway.probe.kind=recovery
  spillway.regime=unknown`},
		"one that is full": {breaker.ColdStart, []string{status(429, "", `{"error":{"message":"SECRET prompt"}}`)}, `probe
  error.type=backend_saturated
  gen_ai.request.model=physical-a
  http.response.status_code=429
  spillway.backend=a
  spillway.cause=full, loading or throttling (status 429)
  spillway.outcome=refused
  spillway.probe.kind=cold-start
  spillway.regime=saturated
  status Error backend_saturated`},
		"one that is broken": {breaker.Suspicion, []string{status(500, "", `{"error":{"message":"SECRET host"}}`)}, `probe
  error.type=upstream_5xx
  gen_ai.request.model=physical-a
  http.response.status_code=500
  spillway.backend=a
  spillway.cause=the backend failed (status 500)
  spillway.outcome=failed
  spillway.probe.kind=suspicion
  spillway.regime=unknown
  status Error upstream_5xx`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			recorder, tracing := traced()
			u := says(t, tc.says...)
			r := newRig(t, newRoute(u), tracing)
			r.route.Chain[0].Credential = &table.Credential{Header: "Authorization", Value: "Bearer SECRET"}
			r.proxy.Probe(t.Context(), breaker.ProbeRequest{ID: "a", Backend: &r.route.Chain[0], Endpoint: "/v1/chat/completions", Purpose: tc.purpose})
			spans := recorder.Ended()
			if len(spans) != 1 || spans[0].Parent().IsValid() || spans[0].SpanKind() != trace.SpanKindClient {
				t.Fatalf("spans %v", spans)
			}
			if diff := cmp.Diff(tc.want, factsOf(spans[0])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := u.requests()[0].header.Get("Traceparent"); !strings.Contains(got, spans[0].SpanContext().SpanID().String()) {
				t.Errorf("the backend got traceparent %q", got)
			}
		})
	}
}
