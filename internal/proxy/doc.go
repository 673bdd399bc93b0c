// Package proxy is the request pipeline: it takes a caller's request from the data port to a backend and the answer back.
//
// In the flow it stands between internal/server, which owns the listeners, and the backends. Above it, internal/table
// tells what exists; beside it, internal/plan, internal/breaker and internal/admission decide who may serve;
// internal/openai and internal/sse read what passes through; internal/telemetry counts it. It knows nothing of
// Kubernetes.
//
// pipeline.go shows the stages of a request, outermost first, each in a file of its own. outcome.go is the one table of
// how an attempt can end and what follows. A request is served by one goroutine, net/http's: it alone writes to the caller
// (caller.go) and it alone waits for backends (upstream.go), which wakes it for heartbeats, limits and the caller's leaving
// (wait.go, limits.go). plain.go is the client for small requests without TLS, whose connections it reads itself;
// http.Transport is the one for all others, and there a goroutine beside it does the reading (pooled.go).
package proxy
