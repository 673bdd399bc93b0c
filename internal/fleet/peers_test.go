package fleet

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// ledger stands in for breakers and limits and writes down what it is told.
type ledger struct {
	mu       sync.Mutex
	lines    []string
	records  []breaker.Record
	onChange func(bool)
}

func (l *ledger) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// take returns what was noted since the last call.
func (l *ledger) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

func (l *ledger) Records() []breaker.Record { return l.records }
func (l *ledger) OnChange(f func(bool))     { l.onChange = f }
func (l *ledger) Forget(peer string)        { l.note("forget %s", peer) }
func (l *ledger) SetPeers(live []string)    { l.note("peers %v", live) }
func (l *ledger) SetLive(n int)             { l.note("live %d", n) }
func (l *ledger) Adopt(p string, r []breaker.Record) {
	line := "adopt " + p
	for _, record := range r {
		line += fmt.Sprintf(" %s:%s:%s", record.ID, record.State, record.Remaining)
	}
	l.note("%s", line)
}

type peersFixture struct {
	*ledger
	*peers
	clock *clocktesting.FakeClock
}

func newPeersFixture() *peersFixture {
	l, clk := &ledger{}, clocktesting.NewFakeClock(time.Unix(0, 0))
	cfg := &Config{Pod: "self", Breakers: l, Shares: l, Clock: clk, Metrics: telemetry.NewTable(prometheus.NewRegistry())}
	return &peersFixture{ledger: l, peers: newPeers(cfg), clock: clk}
}

// report of a proxy whose breaker of backend "tower" is open for another minute.
func report(name, resourceVersion string, change ...func(*v1alpha1.ProxyReportStatus)) *v1alpha1.ProxyReport {
	r := &v1alpha1.ProxyReport{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: resourceVersion},
		Status: v1alpha1.ProxyReportStatus{
			Schema:   v1alpha1.ReportSchema,
			Ready:    true,
			Breakers: []v1alpha1.BreakerReport{{ID: "tower", State: v1alpha1.BackendOpen, Remaining: "1m", Epoch: 1}},
		},
	}
	for _, f := range change {
		f(&r.Status)
	}
	return r
}

func draining(s *v1alpha1.ProxyReportStatus)   { s.Draining = true }
func waiting(s *v1alpha1.ProxyReportStatus)    { s.Ready = false }
func fromFuture(s *v1alpha1.ProxyReportStatus) { s.Schema++ }

// written is a report with a renewTime.
func written(second int64) func(*v1alpha1.ProxyReportStatus) {
	return func(s *v1alpha1.ProxyReportStatus) { s.RenewTime = metav1.NewMicroTime(time.Unix(second, 0)) }
}

func TestPeers(t *testing.T) {
	// Each step is followed by what breakers and limits are told.
	type step struct {
		do   func(*peersFixture)
		want []string
	}
	list := func(reports ...any) func(*peersFixture) {
		return func(f *peersFixture) { _ = f.Replace(reports, "") }
	}
	update := func(r *v1alpha1.ProxyReport) func(*peersFixture) {
		return func(f *peersFixture) { _ = f.Update(r) }
	}
	gone := func(name string) func(*peersFixture) {
		return func(f *peersFixture) { _ = f.Delete(report(name, "9")) }
	}
	pass := func(d time.Duration) func(*peersFixture) {
		return func(f *peersFixture) { f.clock.Step(d); f.sweep() }
	}
	// renewing lets time pass while this proxy's own report comes back every renewInterval, as it does where the API server works.
	renewing := func(d time.Duration) func(*peersFixture) {
		return func(f *peersFixture) {
			for ; d > 0; d -= time.Second {
				f.clock.Step(time.Second)
				if version := f.clock.Since(time.Unix(0, 0)); version%renewInterval == 0 {
					_ = f.Update(report("self", version.String()))
				}
				f.sweep()
			}
		}
	}
	tableReady := func(f *peersFixture) { f.adopt() }
	cases := map[string][]step{
		"alone, this proxy is all there is": {
			{func(f *peersFixture) { f.start() }, []string{"peers [self]", "live 1"}},
		},
		"nothing is adopted before the table is there, then all, one's own old report included": {
			{list(report("other", "1"), report("self", "2")), []string{"peers [other self]", "live 2"}},
			{pass(10 * time.Second), nil},
			{tableReady, []string{"adopt self tower:Open:50s", "adopt other tower:Open:50s"}},
			{tableReady, []string{"adopt other tower:Open:50s"}},
		},
		"what this proxy wrote itself is not adopted": {
			{func(f *peersFixture) { f.ownReport(nil) }, nil},
			{tableReady, nil},
			{list(report("self", "2")), []string{"peers [self]", "live 1"}},
		},
		"an own report that shows late is adopted all the same": {
			{tableReady, nil},
			{func(f *peersFixture) { f.ownReport(report("self", "1")) }, []string{"adopt self tower:Open:1m0s"}},
			{func(f *peersFixture) { f.ownReport(report("self", "2")) }, nil},
		},
		"newer evidence is adopted at once": {
			{tableReady, nil},
			{list(), []string{"peers [self]", "live 1"}},
			{update(report("other", "1")), []string{"peers [other self]", "live 2", "adopt other tower:Open:1m0s"}},
			{update(report("other", "2")), []string{"adopt other tower:Open:1m0s"}},
		},
		"a report that does not change is not live for ever; a repeated list is no sign of life": {
			{tableReady, nil},
			{list(report("other", "1")), []string{"peers [other self]", "live 2", "adopt other tower:Open:1m0s"}},
			{func(f *peersFixture) { f.ownReport(nil) }, nil},
			{renewing(reportLifetime - time.Second), nil},
			{list(report("other", "1"), report("self", "30s")), nil},
			{renewing(time.Second), []string{"forget other", "peers [self]", "live 1"}},
			{tableReady, nil},
			{update(report("other", "2")), []string{"peers [other self]", "live 2", "adopt other tower:Open:1m0s"}},
		},
		"what somebody else does to a report is no sign of life": {
			{list(report("a", "1", written(1)), report("self", "2")), []string{"peers [a self]", "live 2"}},
			{renewing(reportLifetime - time.Second), nil},
			{update(report("a", "3", written(1))), nil},
			{renewing(time.Second), []string{"forget a", "peers [self]", "live 1"}},
			{update(report("a", "4", written(1))), nil},
			{update(report("a", "5", written(2))), []string{"peers [a self]", "live 2"}},
		},
		"the silence of all is the API server's: the last known shares hold, but nobody waits for news of the others": {
			{list(report("a", "1"), report("b", "2")), []string{"peers [a b self]", "live 3"}},
			{pass(reportLifetime), []string{"forget a", "forget b", "peers [self]"}},
			{pass(10 * time.Minute), nil},
		},
		"after an outage each has a whole lifetime to show that it is there": {
			{func(f *peersFixture) { f.ownReport(nil) }, nil},
			{list(report("a", "1"), report("b", "2")), []string{"peers [a b self]", "live 3"}},
			{pass(10 * time.Minute), []string{"forget a", "forget b", "peers [self]"}},
			{list(report("a", "1"), report("b", "2"), report("self", "3")), nil},
			{renewing(10 * time.Second), nil},
			{update(report("a", "4")), []string{"peers [a self]"}},
			{renewing(reportLifetime - 11*time.Second), nil},
			{renewing(time.Second), []string{"live 2"}},
		},
		"a repeated list is no sign of the API server's life either": {
			{list(report("a", "1"), report("self", "2")), []string{"peers [a self]", "live 2"}},
			{pass(contactBound), nil},
			{list(report("a", "1"), report("self", "2")), nil},
			{pass(contactBound), nil},
			{list(report("a", "1"), report("self", "2")), nil},
			{pass(contactBound), []string{"forget a", "peers [self]"}},
		},
		"one proxy's change shows that the silence of another is its own": {
			{list(report("a", "1"), report("b", "2")), []string{"peers [a b self]", "live 3"}},
			{pass(contactBound), nil},
			{update(report("a", "3")), nil},
			{pass(contactBound), nil},
			{update(report("a", "4")), nil},
			{pass(reportLifetime - 2*contactBound), []string{"forget b", "peers [a self]", "live 2"}},
		},
		"a report that was deleted in an outage has no share after it": {
			{list(report("a", "1")), []string{"peers [a self]", "live 2"}},
			{pass(10 * time.Minute), []string{"forget a", "peers [self]"}},
			{list(), []string{"forget a", "live 1"}},
		},
		"a deleted report is forgotten at once, also when the deletion was missed": {
			{list(report("a", "1"), report("b", "2")), []string{"peers [a b self]", "live 3"}},
			{gone("a"), []string{"forget a", "peers [b self]", "live 2"}},
			{gone("a"), nil},
			{list(), []string{"forget b", "peers [self]", "live 1"}},
		},
		"a proxy that waits for its table has a share, and does not probe": {
			{tableReady, nil},
			{list(report("other", "1", waiting)), []string{"peers [self]", "live 2", "adopt other tower:Open:1m0s"}},
			{update(report("other", "2")), []string{"peers [other self]", "adopt other tower:Open:1m0s"}},
		},
		"breakers hear who is live before they adopt anything, one's own old evidence too": {
			{tableReady, nil},
			{list(report("a", "1"), report("self", "2"), report("b", "3")), []string{"peers [a b self]", "live 3",
				"adopt a tower:Open:1m0s", "adopt self tower:Open:1m0s", "adopt b tower:Open:1m0s"}},
		},
		"a draining proxy does not count, but its evidence does": {
			{tableReady, nil},
			{list(report("other", "1")), []string{"peers [other self]", "live 2", "adopt other tower:Open:1m0s"}},
			{update(report("other", "2", draining)), []string{"peers [self]", "live 1", "adopt other tower:Open:1m0s"}},
		},
		"while this proxy drains it does not probe, but has its share": {
			{list(report("other", "1")), []string{"peers [other self]", "live 2"}},
			{func(f *peersFixture) { f.drain() }, []string{"peers [other]"}},
		},
		"a report of another schema has a share and nothing else": {
			{tableReady, nil},
			{list(report("other", "1", fromFuture)), []string{"peers [self]", "live 2"}},
			{tableReady, nil},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			f := newPeersFixture()
			for i, s := range steps {
				s.do(f)
				if diff := cmp.Diff(s.want, f.take()); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}
