package proxy

import (
	"context"

	"github.com/spillway-dev/spillway/internal/breaker"
)

var _ breaker.Prober = (*Proxy)(nil)

// Probe implements breaker.Prober.
func (p *Proxy) Probe(ctx context.Context, r breaker.ProbeRequest) breaker.Result {
	return breaker.Result{}
}
