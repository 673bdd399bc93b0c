package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/table"
)

// Watching the table is a matter of milliseconds where all is well; compiling 10,000 routes takes up to 100 ms.
var secondsOfControl = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}

// ReloadResult is a value of the label "result" of spillway_table_reload_total.
type ReloadResult string

// Results of reading a table or a part of it.
const (
	ReloadApplied   ReloadResult = "applied"   // it is live
	ReloadUnchanged ReloadResult = "unchanged" // it was live already
	ReloadRefused   ReloadResult = "refused"   // damaged or of an unknown schema: the last good one stays
)

// Table holds the metrics of whoever brings tables and reports into a proxy.
type Table struct {
	revision *prometheus.GaugeVec
	reloads  *prometheus.CounterVec
	apply    prometheus.Histogram
	adoption prometheus.Histogram
}

// NewTable declares the metrics of table reloads and report adoption and registers them with reg.
func NewTable(reg prometheus.Registerer) *Table {
	t := &Table{
		revision: gauges("spillway_table_revision_info",
			"1 for the revision of each shard of the routing table that is being served.", "shard", "revision"),
		reloads: counters("spillway_table_reload_total",
			"Times that a part of the routing table was read, by result: applied, unchanged or refused.", "result"),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spillway_table_apply_seconds",
			Help: "Time from the event that announced a changed table to its being served.", Buckets: secondsOfControl}),
		adoption: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spillway_report_adoption_seconds",
			Help: "Time from the event that brought another proxy's report to its evidence being in force here.", Buckets: secondsOfControl}),
	}
	for _, result := range []ReloadResult{ReloadApplied, ReloadUnchanged, ReloadRefused} {
		t.reloads.WithLabelValues(string(result))
	}
	reg.MustRegister(t.revision, t.reloads, t.apply, t.adoption)
	return t
}

// Reload counts one reading of a table or shard.
func (t *Table) Reload(result ReloadResult) { t.reloads.WithLabelValues(string(result)).Inc() }

// Applied records how long it took from the announcing event until the change was served.
func (t *Table) Applied(d time.Duration) { t.apply.Observe(d.Seconds()) }

// Adopted records how long it took from the event of a report until its evidence was in force.
func (t *Table) Adopted(d time.Duration) { t.adoption.Observe(d.Seconds()) }

// Serving exposes the revision of one shard (its name) in place of the one before. The empty revision removes it.
func (t *Table) Serving(shard string, revision table.Revision) {
	t.revision.DeletePartialMatch(prometheus.Labels{"shard": shard})
	if revision != "" {
		t.revision.WithLabelValues(shard, string(revision)).Set(1)
	}
}

// Manager holds the metrics of the control plane's compiler.
type Manager struct {
	duration prometheus.Histogram
	objects  *prometheus.GaugeVec
}

// NewManager declares the manager's metrics and registers them with reg.
func NewManager(reg prometheus.Registerer) *Manager {
	m := &Manager{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spillway_compile_duration_seconds",
			Help: "Time that one compilation of all objects took.", Buckets: secondsOfControl}),
		objects: gauges("spillway_compile_objects",
			"Objects that went into the last compilation, by kind.", "kind"),
	}
	reg.MustRegister(m.duration, m.objects)
	return m
}

// Compiled records one compilation; objects counts what went into it, by kind.
func (m *Manager) Compiled(d time.Duration, objects map[string]int) {
	m.duration.Observe(d.Seconds())
	for kind, n := range objects {
		m.objects.WithLabelValues(kind).Set(float64(n))
	}
}
