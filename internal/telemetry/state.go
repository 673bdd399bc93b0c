package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/table"
)

// BreakerStates are the values of the label "state" of llm_breaker_state, from the best to the worst.
var BreakerStates = []string{"Closed", "HalfOpen", "Open"}

// StateCollector exposes what is true at the moment of a scrape, straight from the table: the state of each backend's
// breaker, the pins in force, and the regimes. It keeps nothing, so nothing in it can be stale.
type StateCollector struct {
	// Table returns the current table.
	Table func() *table.Table
	// Breaker returns the state of a backend, one of BreakerStates; anything else is not exposed. nil exposes no breakers.
	Breaker func(table.BackendID) string
	// Now is the wall clock that pins go by.
	Now func() time.Time
}

var (
	breakerState = breakerStates.desc()
	pinActive    = pinsActive.desc()
	pinEnd       = pinsEnd.desc()
	info         = backendInfo.desc()
)

// Describe implements prometheus.Collector.
func (c *StateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- breakerState
	ch <- pinActive
	ch <- pinEnd
	ch <- info
}

// Collect implements prometheus.Collector.
func (c *StateCollector) Collect(ch chan<- prometheus.Metric) {
	routes := c.Table().Routes()
	c.collectPins(ch, routes)
	collectInfo(ch, routes)
	if c.Breaker != nil {
		c.collectBreakers(ch, routes)
	}
}

func (c *StateCollector) collectPins(ch chan<- prometheus.Metric, routes []*table.Route) {
	now := c.Now()
	for _, r := range routes {
		for i := range r.Pins {
			if p := &r.Pins[i]; p.ActiveAt(now) {
				ch <- prometheus.MustNewConstMetric(pinActive, prometheus.GaugeValue, 1, r.Namespace, p.Name, r.Name)
				ch <- prometheus.MustNewConstMetric(pinEnd, prometheus.GaugeValue, float64(p.ExpiresAt.Unix()), r.Namespace, p.Name, r.Name)
			}
		}
	}
}

func collectInfo(ch chan<- prometheus.Metric, routes []*table.Route) {
	for _, r := range routes {
		for i := range r.Chain {
			ch <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, r.Model, r.Chain[i].Name, r.Chain[i].Regime)
		}
	}
}

func (c *StateCollector) collectBreakers(ch chan<- prometheus.Metric, routes []*table.Route) {
	type owner struct{ namespace, backend string }
	worst := map[owner]int{}
	for _, r := range routes {
		for i := range r.Chain {
			state := rank(c.Breaker(r.Chain[i].ID))
			if state < 0 {
				continue
			}
			o := owner{r.Namespace, r.Chain[i].Name}
			worst[o] = max(worst[o], state)
		}
	}
	for o, state := range worst {
		for i, name := range BreakerStates {
			value := 0.0
			if i == state {
				value = 1
			}
			ch <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue, value, o.namespace, o.backend, name)
		}
	}
}

func rank(state string) int {
	for i, name := range BreakerStates {
		if name == state {
			return i
		}
	}
	return -1
}
