package fleet

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// gateInterval is how often a server that does not answer is asked again. It bounds how long after the server's return
// this proxy notices.
const gateInterval = 250 * time.Millisecond

// gate holds requests back while the API server cannot be reached. One at a time is let through to find out; with the first
// answer all go. Without it each of the 33 watches of each proxy would knock on its own, with a back-off of its own.
type gate struct {
	next  http.RoundTripper
	clock clock.WithTicker
	log   *slog.Logger

	mu       sync.Mutex
	opened   chan struct{} // closed when the server answers; nil while it does
	nextTry  time.Time
	downFrom time.Time
	outages  int // that are over
}

// ended is how many outages are over.
func (g *gate) ended() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.outages
}

func newGate(next http.RoundTripper, clk clock.WithTicker, log *slog.Logger) *gate {
	return &gate{next: next, clock: clk, log: log}
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := g.pass(r); err != nil {
		return nil, err
	}
	resp, err := g.next.RoundTrip(r)
	switch {
	case err == nil:
		g.up()
	case r.Context().Err() == nil:
		g.down(err)
	}
	return resp, err
}

// pass returns when the request may go, or with the error of its context.
func (g *gate) pass(r *http.Request) error {
	for {
		g.mu.Lock()
		opened, wait := g.opened, g.nextTry.Sub(g.clock.Now())
		if opened == nil || wait <= 0 {
			g.nextTry = g.clock.Now().Add(gateInterval)
			g.mu.Unlock()
			return nil
		}
		g.mu.Unlock()
		timer := g.clock.NewTimer(wait)
		select {
		case <-opened:
		case <-timer.C():
		case <-r.Context().Done():
			timer.Stop()
			return r.Context().Err()
		}
		timer.Stop()
	}
}

func (g *gate) up() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		return
	}
	close(g.opened)
	g.opened = nil
	g.outages++
	g.log.Info("the API server answers again", "away", g.clock.Since(g.downFrom).Round(time.Millisecond).String())
}

func (g *gate) down(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nextTry = g.clock.Now().Add(gateInterval)
	if g.opened != nil {
		return
	}
	g.opened = make(chan struct{})
	g.downFrom = g.clock.Now()
	g.log.Warn("the API server cannot be reached; serving on with the last table and own evidence", "error", err.Error())
}
