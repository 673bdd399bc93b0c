package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// slowAfter is how long the routes with a silent first backend wait for a token.
const slowAfter = time.Second

// Models of the healthy backends, see package mock.
const (
	modelUnary   = "unary"
	modelStream  = "s100x20"
	modelShort   = "s10x10"
	modelHeld    = "s40x1000"
	modelCrowd   = "s20x4000"
	modelLong    = "s500x20"
	modelOpened  = "opened" // a route only: its first backend is silent and its breaker opens at once
	routesFolder = "bench"  // namespace of the routes, so the first part of every logical model
)

// silences are the stages at which a backend goes quiet.
var silences = []string{"no-headers", "headers-only", "role-only", "comments"}

// logical is the model that callers name: the proxy resolves it, the mock looks at its last part alone.
func logical(model string) string { return routesFolder + "/" + model }

func (ar *arena) manifests() string { return filepath.Join(ar.dir, "manifests") }

// writeManifests writes one route for each model. The healthy ones have two backends, so that the watch for the first
// token is armed, and every default: breakers, heartbeats, recovery, the logical model in answers. Only the rate limit is
// off, which would end the measurement.
func (ar *arena) writeManifests() error {
	var text strings.Builder
	for _, model := range []string{modelUnary, modelStream, modelShort, modelHeld, modelCrowd, modelLong} {
		text.WriteString(ar.route(model, model, model, ""))
	}
	for _, stage := range silences {
		// The threshold keeps the breaker closed, so that each request meets the silence.
		text.WriteString(ar.route(stage, stage, modelShort, fmt.Sprintf("saturation: {threshold: 1000, slowAfter: %s}", slowAfter)))
	}
	text.WriteString(ar.route(modelOpened, "role-only", modelShort,
		fmt.Sprintf("saturation: {threshold: 1, slowAfter: %s, coldStartGrace: 0s}", slowAfter)))
	if err := os.MkdirAll(ar.manifests(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(ar.manifests(), "routes.yaml"), []byte(text.String()), 0o600)
}

// route renders a route from backend a, which serves the model first, to b, which serves second.
func (ar *arena) route(name, first, second, more string) string {
	// The query keeps backends of different routes apart: one that is silent must not open the breaker of another.
	return fmt.Sprintf(`---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  chain:
  - {name: a, url: "http://%[3]s/v1?route=%[2]s", model: %[4]s}
  - {name: b, url: "http://%[5]s/v1?route=%[2]s", model: %[6]s}
  rateLimit: {requests: 0}
  %[7]s
`, routesFolder, name, ar.a.addr, first, ar.b.addr, second, more)
}
