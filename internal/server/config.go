package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Defaults of the lifecycle flags.
const (
	DefaultDrainDelay     = 5 * time.Second
	DefaultDrainTimeout   = 5 * time.Minute
	DefaultMaxConnections = 16384
)

const (
	// readHeaderTimeout bounds the header of a request; slower callers are dropped.
	readHeaderTimeout = 10 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 2 * time.Minute
	// writeStall is how long a connection of HTTP/2 may take nothing of what there is to write. A deadline of one of its streams does not
	// end that: it resets the stream, and the reset is written behind all the rest.
	writeStall = 30 * time.Second
	// maxHeaderBytes bounds a request's header, maxHeaderFields the number of its values: thousands of tiny ones would cost more
	// than their bytes.
	maxHeaderBytes  = 64 << 10
	maxHeaderFields = 256
	// maxLinger is how long a connection stays open for a next request where its last answer could not tell that there should
	// be none; less where the drain delay is shorter.
	maxLinger = time.Second
	// forceGrace is what cancelled requests get to write their last words before they are cut.
	forceGrace = 2 * time.Second
)

// ErrShutdown is the cause (context.Cause) of a request's context that was cancelled because the drain timeout passed.
var ErrShutdown = errors.New("the proxy is shutting down")

// Config of a Server. Handler, Metrics, Ready and Log are required.
type Config struct {
	// Listen and AdminListen are addresses such as ":8080"; port 0 takes a free one.
	Listen, AdminListen string
	// Handler serves the data port.
	Handler http.Handler
	// Metrics serves /metrics on the admin port.
	Metrics http.Handler
	// Status, if set, serves /statusz on the admin port.
	Status http.Handler
	// Ready returns nil when the process may get traffic, else why not, in words for whoever reads /readyz.
	Ready func() error
	// OnDrain, if set, is called once, when the drain begins. It must not block.
	OnDrain func()
	// TLSCert and TLSKey name a PEM pair for the data port, read again when it changes. Both or neither.
	TLSCert, TLSKey string
	// DrainDelay is how long the listener stays open after the drain began; DrainTimeout bounds the whole drain, counted
	// from the same moment.
	DrainDelay, DrainTimeout time.Duration
	// MaxConnections bounds open connections of the data port; further ones wait in the kernel's backlog. 0 takes
	// DefaultMaxConnections.
	MaxConnections int
	Log            *slog.Logger

	// after is time.After; tests hold the drain delay by it. The others shorten limits.
	after                             func(time.Duration) <-chan time.Time
	readHeader, bodyStall, writeStall time.Duration
}

func (c *Config) setDefaults() {
	if c.MaxConnections == 0 {
		c.MaxConnections = DefaultMaxConnections
	}
	if c.after == nil {
		c.after = time.After
	}
	if c.readHeader == 0 {
		c.readHeader = readHeaderTimeout
	}
	if c.bodyStall == 0 {
		c.bodyStall = bodyStall
	}
	if c.writeStall == 0 {
		c.writeStall = writeStall
	}
}

// Validate says what is wrong with the configuration and what to do.
func (c *Config) Validate() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("TLS needs both a certificate and a key: give --tls-cert and --tls-key, or neither")
	case c.DrainDelay < 0:
		return fmt.Errorf("drain delay is %s: it must not be negative", c.DrainDelay)
	case c.DrainTimeout < c.DrainDelay:
		return fmt.Errorf("drain timeout (%s) is shorter than the drain delay (%s) that it includes: raise --drain-timeout",
			c.DrainTimeout, c.DrainDelay)
	case c.MaxConnections < 0:
		return fmt.Errorf("the limit of connections is %d: it must not be negative", c.MaxConnections)
	}
	return nil
}
