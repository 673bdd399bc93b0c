package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSettleMakesOneOfABurst(t *testing.T) {
	cases := map[string]struct {
		every time.Duration // one more change; 0: none
		want  time.Duration
	}{
		"a single change waits for quiet":       {0, quiet},
		"a burst without an end is cut off":     {quiet / 2, longestBurst},
		"slow changes are changes of their own": {2 * quiet, quiet},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSignal()
				ctx, cancel := context.WithCancel(t.Context())
				if tc.every > 0 {
					go func() {
						for tick := time.NewTicker(tc.every); ; {
							select {
							case <-ctx.Done():
								tick.Stop()
								return
							case <-tick.C:
								s.raise()
							}
						}
					}()
				}
				start := time.Now()
				if !s.settle(ctx, quiet, longestBurst) {
					t.Error("settle gave up")
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("settled after %s, want %s", took, tc.want)
				}
				cancel()
				synctest.Wait()
				if newSignal().settle(ctx, quiet, longestBurst) {
					t.Error("settle goes on after its context has ended")
				}
			})
		})
	}
}
