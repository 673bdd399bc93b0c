package standalone

import (
	"context"
	"iter"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/status"
	"github.com/spillway-dev/spillway/internal/table"
)

// live is the revision of every shard of a table that did not come in shards: what is loaded is what is served.
const live table.Revision = "live"

// Page keeps the status of routes and pins as a manager would, from the breakers of this one proxy, and serves it over HTTP.
type Page struct {
	report  func() v1alpha1.ProxyReportStatus
	version string
	clock   clock.Clock
	wake    chan struct{}

	mu     sync.Mutex
	loaded *Loaded
	routes map[types.NamespacedName]v1alpha1.LLMRouteStatus // as computed last: times are held to it
	pins   map[types.NamespacedName]v1alpha1.BackendPinStatus
}

// NewPage makes a page. report says what this proxy would report to a manager; its tables and schema are filled in here.
func NewPage(version string, report func() v1alpha1.ProxyReportStatus) *Page {
	return &Page{report: report, version: version, clock: clock.RealClock{}, wake: make(chan struct{}, 1)}
}

// Load takes in what was loaded.
func (p *Page) Load(l *Loaded) {
	p.mu.Lock()
	p.loaded = l
	p.mu.Unlock()
	p.Changed()
}

// Changed says that a breaker has changed. It never blocks.
func (p *Page) Changed() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run keeps the status until ctx ends, so that "since" is when something happened and not when somebody looked.
func (p *Page) Run(ctx context.Context) {
	for {
		next := p.refresh()
		var edge <-chan time.Time
		if !next.IsZero() {
			edge = p.clock.After(max(next.Sub(p.clock.Now()), 0) + time.Millisecond)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-edge:
		}
	}
}

// refresh computes all anew and returns when the next pin starts or ends; zero where none does.
func (p *Page) refresh() (next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded == nil {
		return time.Time{}
	}
	now := p.clock.Now()
	fleet := status.NewFleet([]status.Report{{Status: p.whole(now)}})
	routes := make(map[types.NamespacedName]v1alpha1.LLMRouteStatus, len(p.loaded.Result.Routes))
	for key, verdict := range p.loaded.Result.Routes {
		entry := p.loaded.Result.Table().ByKey(key.String())
		routes[key] = status.Route(status.RouteInput{
			Route: &v1alpha1.LLMRoute{Status: p.routes[key]}, Verdict: verdict, Entry: entry,
			Fleet: fleet, Holding: map[table.Revision]bool{live: true}, Now: now,
		})
		next = sooner(next, pin.NextEdge(entry, now))
	}
	pins := make(map[types.NamespacedName]v1alpha1.BackendPinStatus, len(p.loaded.Result.Pins))
	for _, pin := range p.loaded.Snapshot.Pins {
		key := types.NamespacedName{Namespace: pin.Namespace, Name: pin.Name}
		verdict := p.loaded.Result.Pins[key]
		in := status.PinInput{Pin: pin.DeepCopy(), Verdict: verdict, Now: now}
		in.Pin.Status = p.pins[key]
		in.Routes = p.loaded.entriesOf(pin.Namespace, verdict.MatchedRoutes)
		pins[key] = status.Pin(in)
		next = sooner(next, status.NextChange(verdict, now))
	}
	p.routes, p.pins = routes, pins
	return next
}

// entriesOf yields the compiled entries of routes, those that have one.
func (l *Loaded) entriesOf(namespace string, routes []string) iter.Seq[*table.Route] {
	return func(yield func(*table.Route) bool) {
		for _, name := range routes {
			if entry := l.Result.Table().ByKey(namespace + "/" + name); entry != nil && !yield(entry) {
				return
			}
		}
	}
}

// whole is the report of this proxy with what only a cluster has.
func (p *Page) whole(now time.Time) *v1alpha1.ProxyReportStatus {
	report := p.report()
	report.Schema, report.TableSchema, report.RenewTime = v1alpha1.ReportSchema, table.Schema, metav1.NewMicroTime(now)
	for i := range table.Shards {
		report.Tables = append(report.Tables, v1alpha1.TableRevision{Shard: int32(i), Revision: string(live)})
	}
	return &report
}

// sooner is the earlier of two instants, of which either may be none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
