package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// wire is an API server that can be reached or not.
type wire struct {
	up    atomic.Bool
	tries atomic.Int64
}

func (w *wire) RoundTrip(*http.Request) (*http.Response, error) {
	w.tries.Add(1)
	if !w.up.Load() {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestGateLetsOneAskWhileTheServerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		g := newGate(w, clock.RealClock{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var watches sync.WaitGroup
		served := atomic.Int64{}
		for range 33 {
			watches.Go(func() {
				for ctx.Err() == nil { // as a watch does, which comes again at once
					r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api", nil)
					if _, err := g.RoundTrip(r); err == nil {
						served.Add(1)
						return
					}
				}
			})
		}
		time.Sleep(10 * time.Second) // of the bubble
		atStart := int64(33)         // all were under way before the first one failed
		if tries := w.tries.Load() - atStart; tries > int64(10*time.Second/gateInterval)+1 {
			t.Errorf("%d requests in 10 s of outage, want one per %s", tries, gateInterval)
		}
		w.up.Store(true)
		time.Sleep(gateInterval)
		synctest.Wait()
		if served.Load() != 33 {
			t.Errorf("%d of 33 watches are back %s after the server", served.Load(), gateInterval)
		}
		cancel()
		watches.Wait()
	})
}

func TestGateKeepsNobodyLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(&wire{}, clock.RealClock{}, slog.New(slog.DiscardHandler))
		ask := func(ctx context.Context) error {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://api", nil)
			_, err := g.RoundTrip(r)
			return err
		}
		if ask(t.Context()) == nil {
			t.Fatal("the server is down")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want that of the context", err)
		}
	})
}
