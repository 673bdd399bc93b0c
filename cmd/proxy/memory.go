package main

import (
	"math"
	"runtime/debug"

	"github.com/spillway-dev/spillway/internal/proxy"
)

// limitMemory keeps the process below GOMEMLIMIT, which the chart sets to the container's limit, and returns how many bytes
// bodies may take together. What the runtime does not see, such as the kernel's buffers of connections, counts against a
// container too: the tenth is for that.
func limitMemory() (bodies int64) {
	limit := debug.SetMemoryLimit(-1) // a negative one only asks
	if limit != math.MaxInt64 {
		debug.SetMemoryLimit(limit - limit/10)
	}
	return bodyBudget(limit)
}

// bodyBudget leaves bodies half of a process's memory: one that outgrows its buffer is there once and a half while it is copied,
// and streams, connections and the table need room. More than the pipeline's own default it never is.
func bodyBudget(limit int64) int64 { return min(limit/2, proxy.DefaultBodyBudget) }
