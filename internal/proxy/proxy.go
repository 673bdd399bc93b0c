package proxy

import (
	"net/http"
)

// Proxy serves the data port. It is safe for concurrent use; make one with New. It implements breaker.Prober.
type Proxy struct {
	cfg Config
}

// New returns a proxy and subscribes it to the store's tables.
func New(cfg Config) *Proxy {
	cfg.setDefaults()
	return &Proxy{cfg: cfg}
}

// Handler serves the data port: the routed endpoints, the model list, health and readiness.
func (p *Proxy) Handler() http.Handler { return http.NotFoundHandler() }

// Close waits for what outlives its request (connections that are read to their end) and closes idle connections. Call
// it after the server has stopped and after breaker.Registry.Run has returned.
func (p *Proxy) Close() {}
