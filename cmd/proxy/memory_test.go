package main

import (
	"math"
	"testing"

	"github.com/spillway-dev/spillway/internal/proxy"
)

func TestBodyBudget(t *testing.T) {
	for name, tc := range map[string]struct{ limit, want int64 }{
		"without a limit it is the pipeline's default":   {math.MaxInt64, proxy.DefaultBodyBudget},
		"in a large container, too":                      {64 << 30, proxy.DefaultBodyBudget},
		"with the chart's limit, half of it":             {1 << 30, 512 << 20},
		"in a small container, what its callers can use": {128 << 20, 64 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			if got := bodyBudget(tc.limit); got != tc.want {
				t.Errorf("%d bytes, want %d", got, tc.want)
			}
		})
	}
}
