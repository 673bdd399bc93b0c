package sim

import (
	"maps"
	"sync"
)

// Stats is what a backend has seen since its start or the last reset.
type Stats struct {
	Mode       Mode           `json:"mode"`
	Requests   int            `json:"requests"`   // to inference endpoints
	ByEndpoint map[string]int `json:"byEndpoint"` // by path, other endpoints than inference included
	Synthetic  int            `json:"synthetic"`  // inference requests for a single token, as probes are
	InFlight   int            `json:"inFlight"`   // inference requests that have not ended
	Cancelled  int            `json:"cancelled"`  // callers that left before the end, silent or not
	Tokens     int            `json:"tokens"`     // sent in answers
}

// counters guards the running Stats.
type counters struct {
	mu sync.Mutex
	s  Stats
}

func (c *counters) update(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.s)
}

func (c *counters) endpoint(path string) {
	c.update(func(s *Stats) {
		if s.ByEndpoint == nil {
			s.ByEndpoint = map[string]int{}
		}
		s.ByEndpoint[path]++
	})
}

// begin counts an inference request and returns what counts its end.
func (c *counters) begin(synthetic bool) (end func()) {
	c.update(func(s *Stats) {
		s.Requests++
		s.InFlight++
		if synthetic {
			s.Synthetic++
		}
	})
	return func() { c.update(func(s *Stats) { s.InFlight-- }) }
}

func (c *counters) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	s.ByEndpoint = maps.Clone(s.ByEndpoint)
	return s
}

func (c *counters) reset() {
	c.update(func(s *Stats) { *s = Stats{Mode: s.Mode, InFlight: s.InFlight} })
}
