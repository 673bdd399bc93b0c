// Package server is the life of the proxy process as its callers see it: listening, limits on connections and slow
// callers, health, and the drain. It stands in front of the request pipeline (internal/proxy), hands it requests over
// HTTP/1.1 and HTTP/2, with and without TLS, and knows nothing of routes, backends or Kubernetes.
//
// The way down, counted from the moment the context of Run ends (SIGTERM):
//
//	at once        readiness fails; the listener stays open, answers carry "Connection: close"
//	DrainDelay     the listener closes; running requests go on, and a connection whose answer began before all this serves one
//	               more request, which tells its caller to go elsewhere
//	DrainTimeout   running requests are cancelled with the cause ErrShutdown, so that the pipeline can end a stream
//	               with an error the caller understands
//	+ forceGrace   what is still there is cut
//
// No timeout here covers a stream: only headers, request bodies and idle connections are timed.
package server
