package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/table"
)

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
	t := &Table{revision: tableRevision.gauges(), reloads: tableReloads.counters(), apply: tableApply.histogram(), adoption: reportAdoption.histogram()}
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

// Manager holds the metrics of the control plane.
type Manager struct {
	duration        prometheus.Histogram
	objects         *prometheus.GaugeVec
	publishFailures prometheus.Counter
	crdMissing      *prometheus.GaugeVec
	crdUnknown      *prometheus.GaugeVec
}

// NewManager declares the manager's metrics and registers them with reg.
func NewManager(reg prometheus.Registerer) *Manager {
	m := &Manager{duration: compileDuration.histogram(), objects: compileObjects.gauges(),
		publishFailures: publishFailures.counter(), crdMissing: crdMissing.gauges(), crdUnknown: crdUnknown.gauges()}
	reg.MustRegister(m.duration, m.objects, m.publishFailures, m.crdMissing, m.crdUnknown)
	return m
}

// Compiled records one compilation; objects counts what went into it, by kind.
func (m *Manager) Compiled(d time.Duration, objects map[string]int) {
	m.duration.Observe(d.Seconds())
	for kind, n := range objects {
		m.objects.WithLabelValues(kind).Set(float64(n))
	}
}

// PublishFailed counts one try to publish the table that did not succeed.
func (m *Manager) PublishFailed() { m.publishFailures.Inc() }

// CRDSkew records how many fields of this release a served CustomResourceDefinition (its name) lacks, and how many it has that
// this release does not know.
func (m *Manager) CRDSkew(crd string, missing, unknown int) {
	m.crdMissing.WithLabelValues(crd).Set(float64(missing))
	m.crdUnknown.WithLabelValues(crd).Set(float64(unknown))
}
