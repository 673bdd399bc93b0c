// Package proxy is the request pipeline: it takes a caller's request from the data port to a backend and the answer back.
//
// In the flow it stands between internal/server, which owns the listeners, and the backends. Above it, internal/table
// tells what exists; beside it, internal/plan, internal/breaker and internal/admission decide who may serve;
// internal/openai and internal/sse read what passes through; internal/telemetry counts it. It knows nothing of
// Kubernetes.
//
// pipeline.go shows the stages of a request, outermost first, each in a file of its own. outcome.go is the one table of
// how an attempt can end and what follows. caller.go is the only place that writes to a caller, on the goroutine of the
// request; upstream.go is the only goroutine beside it: one per attempt, which reads from the backend. plain.go is its
// client for small requests without TLS; http.Transport is the one for all others.
package proxy
