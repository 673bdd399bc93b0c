package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// Defaults of a Config.
const (
	DefaultMaxBody      = 32 << 20
	DefaultBodyBudget   = 1 << 30
	DefaultMaxAnswer    = 64 << 20
	DefaultWriteTimeout = 30 * time.Second
)

// Config of a Proxy. Store, Breakers, Admission and Metrics are required; the rest has defaults.
type Config struct {
	// Store holds the table that is served. New registers with it: the breakers, the admission, the metrics and the
	// connections follow each new table, so nobody else has to apply it to them.
	Store     *table.Store
	Breakers  *breaker.Registry
	Admission *admission.Admission
	Metrics   *telemetry.Proxy
	// AccessLog gets one line per request; the zero value writes none.
	AccessLog telemetry.AccessLog
	// Tracer makes the spans of requests; nil makes none.
	Tracer *telemetry.Tracer
	// Log is for what concerns no single request, and for faults of ours. Default: discarded.
	Log *slog.Logger

	// Authorize is asked about each caller; nil lets everybody in.
	Authorize Authorizer
	// Ready answers /readyz on the data port: nil when the process may get traffic, else why not. Default: whether the
	// Store is ready.
	Ready func() error

	// MaxBody bounds one request body after decoding, in bytes. BodyBudget bounds all that are held at the same
	// time, the answers that are read whole, and what is held of streams.
	MaxBody, BodyBudget int64
	// MaxAnswer bounds an answer that is read whole (not a stream), in bytes.
	MaxAnswer int64
	// WriteTimeout is how long one write to a caller may take before the caller counts as gone.
	WriteTimeout time.Duration
	// AllowCIDRs exempts addresses from the dial guard, which refuses link-local, loopback and unspecified ones.
	AllowCIDRs []netip.Prefix
	// Version goes into the User-Agent that backends see.
	Version string
	// Now is the wall clock. Default: time.Now.
	Now func() time.Time
}

// Authorizer says who a caller is and what it may use. The caller's name goes into the access log: it is empty where nobody
// can say it, and never the credential.
type Authorizer interface {
	// Authorize returns nil to let the request pass, else what the caller is told: unauthenticated or forbidden.
	Authorize(ctx context.Context, header http.Header, route *table.Route) (caller string, refusal *openai.Error)
	// Usable returns those of the routes that the caller may use, in their order, or why it is not let in at all.
	Usable(ctx context.Context, header http.Header, routes []*table.Route) (usable []*table.Route, caller string, refusal *openai.Error)
}

func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func() error {
			if !c.Store.Ready() {
				return errors.New("no table is loaded yet")
			}
			return nil
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	c.BodyBudget = cmp.Or(c.BodyBudget, DefaultBodyBudget)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, DefaultMaxAnswer)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.Version = cmp.Or(c.Version, "dev")
}
