package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

const (
	// reportLifetime is how long a report counts after its last change, on the reader's clock.
	reportLifetime = 45 * time.Second
	sweepInterval  = time.Second
	// contactBound is how long no report may change, one's own included, before the silence is the API server's and not that
	// of the proxies: this proxy's own report comes back every renewInterval.
	contactBound = renewInterval + writeTimeout
)

// peers keeps what the reports of the namespace say: it is the sink of their watch, hands evidence to the breakers and
// works out who is live.
//
// Evidence is believed only for backends in this proxy's table, which the breakers see to; so nothing is adopted before
// the table is there, and all is offered again when it changes.
type peers struct {
	self     string
	breakers Evidence
	shares   Shares
	metrics  *telemetry.Table
	clock    clock.WithTicker
	synced   chan struct{} // closed when all reports have been read once

	mu       sync.Mutex
	known    map[string]*peer
	once     sync.Once // closes synced
	adopting bool      // the table is there
	draining bool      // this proxy is
	// own is what this pod reported before it was restarted; nil once adopted or when there was nothing.
	own     *peer
	ownRead bool
	// ownVersion is the resourceVersion of this pod's report that was seen last.
	ownVersion  string
	lastContact time.Time // when any report changed, one's own included
	backSince   time.Time // when reports changed again after an interruption
	live        []string  // as last told
	count       int
}

// peer is the last report of one proxy.
type peer struct {
	resourceVersion string
	renewed         metav1.MicroTime // by its own clock

	at   time.Time // when that came, on this proxy's clock
	live bool      // it changed within reportLifetime
	// sharing says that it has its share of the limits: it is live, or fell silent together with the API server.
	sharing    bool
	draining   bool
	ready      bool // it has read its table
	understood bool // its schema is ours
	records    []breaker.Record
}

func newPeers(cfg *Config) *peers {
	return &peers{
		self: cfg.Pod, breakers: cfg.Breakers, shares: cfg.Shares, metrics: cfg.Metrics, clock: cfg.Clock,
		synced: make(chan struct{}), known: map[string]*peer{}, count: -1,
	}
}

// start tells breakers and limits of this proxy alone, before any report has been read.
func (p *peers) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.updateLive()
}

// run ends the lives of reports that do not change any more, until ctx ends.
func (p *peers) run(ctx context.Context) {
	tick := p.clock.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C():
			p.sweep()
		case <-ctx.Done():
			return
		}
	}
}

// Add implements cache.ReflectorStore.
func (p *peers) Add(obj any) error { return p.Update(obj) }

// Update implements cache.ReflectorStore.
func (p *peers) Update(obj any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, news := p.observe(obj)
	p.updateLive()
	if news {
		p.adoptFrom(name)
	}
	return nil
}

// Delete implements cache.ReflectorStore: a report is deleted when its proxy has gone.
func (p *peers) Delete(obj any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if report, ok := obj.(*v1alpha1.ProxyReport); ok {
		p.drop(report.Name)
		p.updateLive()
	}
	return nil
}

// Replace implements cache.ReflectorStore: the whole truth after a list.
func (p *peers) Replace(objs []any, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	listed := make(map[string]bool, len(objs))
	var toAdopt []string
	for _, obj := range objs {
		name, news := p.observe(obj)
		listed[name] = true
		if news {
			toAdopt = append(toAdopt, name)
		}
	}
	for name := range p.known {
		if !listed[name] {
			p.drop(name)
		}
	}
	p.updateLive()
	for _, name := range toAdopt {
		p.adoptFrom(name)
	}
	p.once.Do(func() { close(p.synced) })
	return nil
}

// Resync implements cache.ReflectorStore.
func (p *peers) Resync() error { return nil }

// observe takes note of a report. It returns the name of the proxy, and whether there is something to adopt: who is live is told
// first, else a breaker that another proxy has opened would be ours alone to probe.
func (p *peers) observe(obj any) (name string, news bool) {
	report, ok := obj.(*v1alpha1.ProxyReport)
	if !ok {
		return "", false
	}
	began := p.clock.Now()
	if report.Name == p.self {
		if p.ownVersion != report.ResourceVersion {
			p.ownVersion = report.ResourceVersion
			p.noteContact(began)
		}
		return report.Name, p.readOwn(report)
	}
	old := p.known[report.Name]
	if old != nil && old.resourceVersion == report.ResourceVersion {
		return report.Name, false // a list that repeats what is known is no sign of life
	}
	p.noteContact(began)
	if old != nil && !report.Status.IsWrittenAfter(old.renewed) {
		old.resourceVersion = report.ResourceVersion
		return report.Name, false // nor is what somebody else did to it
	}
	p.known[report.Name] = newPeer(report, began, report.Status.ClockOffset(began))
	return report.Name, true
}

// adoptFrom offers what a proxy's report has brought to the breakers, once the table is there.
func (p *peers) adoptFrom(name string) {
	switch {
	case !p.adopting:
	case name == p.self:
		p.adoptOwn()
	case p.known[name].understood:
		p.breakers.Adopt(name, p.known[name].records)
		p.metrics.Adopted(p.clock.Since(p.known[name].at))
	}
}

// noteContact notes that reports change. After an interruption each proxy has a whole lifetime to show that it is still there.
func (p *peers) noteContact(now time.Time) {
	if !p.inTouch(now) {
		p.backSince = now
	}
	p.lastContact = now
}

// inTouch says whether the silence of a proxy can be told from that of the API server.
func (p *peers) inTouch(now time.Time) bool { return now.Sub(p.lastContact) <= contactBound }

// newPeer reads a report that came now; offset lies between the clock that it was written by and ours.
func newPeer(report *v1alpha1.ProxyReport, now time.Time, offset time.Duration) *peer {
	seen := &peer{
		resourceVersion: report.ResourceVersion,
		renewed:         report.Status.RenewTime,
		at:              now,
		live:            true,
		sharing:         true,
		draining:        report.Status.Draining,
		ready:           report.Status.Ready,
		understood:      report.Status.Schema == v1alpha1.ReportSchema,
	}
	if seen.understood {
		seen.records = toRecords(report.Status.Breakers, offset)
	}
	return seen
}

// ownReport hands in what stood in this pod's report before its first write. Only the first call counts.
func (p *peers) ownReport(report *v1alpha1.ProxyReport) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.readOwn(report) {
		p.adoptFrom(p.self)
	}
}

// readOwn says whether it was the first call, and brought something.
func (p *peers) readOwn(report *v1alpha1.ProxyReport) bool {
	if p.ownRead {
		return false
	}
	p.ownRead = true
	if report == nil {
		return false
	}
	p.own = newPeer(report, p.clock.Now(), 0) // it is old because this proxy was away, not because it had another clock
	return true
}

func (p *peers) adoptOwn() {
	if p.own != nil && p.own.understood {
		p.breakers.Adopt(p.self, aged(p.own.records, p.clock.Since(p.own.at)))
	}
	p.own = nil
}

// adopt offers all evidence to the breakers. The first call says that the table is there; further ones that it changed.
func (p *peers) adopt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.adopting = true
	p.adoptOwn()
	for name, peer := range p.known {
		if peer.live && peer.understood {
			p.breakers.Adopt(name, aged(peer.records, p.clock.Since(peer.at)))
		}
	}
}

// drain says that this proxy is about to go: it does not probe any more.
func (p *peers) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	p.updateLive()
}

func (p *peers) drop(name string) {
	if _, known := p.known[name]; known {
		delete(p.known, name)
		p.breakers.Forget(name)
	}
}

// sweep ends the lives of reports that did not change for their lifetime: what they say counts no more. Their shares of the
// limits end only where this proxy is in touch with the API server: cut off from it, one that took the silence of all others
// for their end would take the whole of each limit, as would all the others.
func (p *peers) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	for _, name := range slices.Sorted(maps.Keys(p.known)) {
		peer := p.known[name]
		if peer.live && now.Sub(peer.at) >= reportLifetime {
			peer.live = false
			p.breakers.Forget(name)
		}
		silent := min(now.Sub(peer.at), now.Sub(p.backSince)) >= reportLifetime
		peer.sharing = peer.live || peer.sharing && !(silent && p.inTouch(now))
	}
	p.updateLive()
}

// size is the number of proxies that share the limits, this one included.
func (p *peers) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.count, 1)
}

// updateLive works out who is live and tells breakers and limits when that changed. A proxy whose reports are not understood, or
// that fell silent together with the API server, has its share of the limits, but takes no part in the choice of who probes:
// no news of its probes could be read. Nor does one without a table, which knows of nothing to probe.
func (p *peers) updateLive() {
	count := 1 // oneself always counts
	var live []string
	if !p.draining {
		live = append(live, p.self)
	}
	for name, peer := range p.known {
		if peer.draining {
			continue
		}
		if peer.sharing {
			count++
		}
		if peer.live && peer.understood && peer.ready {
			live = append(live, name)
		}
	}
	slices.Sort(live)
	if !slices.Equal(live, p.live) {
		p.live = live
		p.breakers.SetPeers(slices.Clone(live))
	}
	if count != p.count {
		p.count = count
		p.shares.SetLive(count)
	}
}
