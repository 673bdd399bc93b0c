package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Type of a metric.
type Type string

// Types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Program that exposes a metric.
type Program string

// Programs.
const (
	InProxy   Program = "proxy"
	InManager Program = "manager"
)

// Metric is the declaration of one metric: all that there is to know of it but its value.
type Metric struct {
	Name    string
	Type    Type
	Program Program
	Unit    string   // of the value, or what it counts
	Labels  []string // in the order of their values
	Help    string   // one sentence
	buckets []float64
}

// Metrics returns all declarations, sorted by name.
func Metrics() []Metric {
	all := slices.Concat(proxyMetrics[:], tableMetrics[:], stateMetrics[:], managerMetrics[:])
	out := make([]Metric, len(all))
	for i, m := range all {
		out[i] = *m
	}
	slices.SortFunc(out, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (m *Metric) counters() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m *Metric) counter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: m.Name, Help: m.Help})
}

func (m *Metric) gauges() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m *Metric) gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: m.Name, Help: m.Help})
}

func (m *Metric) histograms() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.buckets}, m.Labels)
}

func (m *Metric) histogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.buckets})
}

func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

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
