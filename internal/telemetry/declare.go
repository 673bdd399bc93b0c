package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// labelsOf lists the label sets that a collector exposes now.
func labelsOf(c prometheus.Collector) []map[string]string {
	ch := make(chan prometheus.Metric)
	go func() {
		c.Collect(ch)
		close(ch)
	}()
	var sets []map[string]string
	for m := range ch {
		var out dto.Metric
		if m.Write(&out) != nil {
			continue
		}
		set := make(map[string]string, len(out.GetLabel()))
		for _, pair := range out.GetLabel() {
			set[pair.GetName()] = pair.GetValue()
		}
		sets = append(sets, set)
	}
	return sets
}
