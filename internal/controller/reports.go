package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/internal/status"
)

const (
	// DefaultReportTimeout is how long a proxy counts as live after it last wrote its report, by our own clock. Proxies renew every
	// 15 s.
	DefaultReportTimeout = 45 * time.Second
	// DefaultReportRetention is how long after that sighting a report is deleted.
	DefaultReportRetention = 10 * time.Minute
	// foldAfter lets several reports of one moment be folded at once.
	foldAfter = 20 * time.Millisecond
	// foldEvery is the longest between two folds, and asleep how much later than that one may be before it was not the machine's
	// being busy but our being frozen. Shorter sleeps do no harm: a proxy that lives is silent for much less than the timeout.
	foldEvery = 5 * time.Second
	asleep    = 10 * time.Second
	// clockSkew is how far the wall clocks of two nodes may lie apart without harm.
	clockSkew = 5 * time.Minute
)

// reports knows which proxies are alive and what they say together. It runs on every replica, so that a new leader need
// not wait for a timeout to know.
type reports struct {
	clock   clock.Clock
	timeout time.Duration

	mu    sync.Mutex
	known map[types.NamespacedName]sighting
	// away says that the API server does not answer, and back is when it last began to again, or when we were last frozen.
	away  bool
	back  time.Time
	dirty signal

	fleet atomic.Pointer[status.Fleet]
	// changed is told what differs after each fold.
	changed func(status.Change)
}

// sighting is a report and when its proxy last wrote it, on our clock.
type sighting struct {
	report *storedReport
	at     time.Time
	folded *storedReport // as the fleet knows it; nil where it does not count there
}

func newReports(c clock.Clock, timeout time.Duration) *reports {
	return &reports{clock: c, timeout: timeout, known: map[types.NamespacedName]sighting{}, dirty: newSignal(), changed: func(status.Change) {}}
}

// watch feeds the reports from an informer and returns once all that exist are known.
func (r *reports) watch(c cache.Cache) func(context.Context) error {
	return func(ctx context.Context) error { return handle(ctx, c, &storedReport{}, r.set) }
}

func (r *reports) set(key types.NamespacedName, report *storedReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if report == nil {
		delete(r.known, key)
	} else {
		was, ok := r.known[key]
		if ok && was.report.ResourceVersion == report.ResourceVersion {
			return // the informer repeats itself; that is no sign of life
		}
		at := r.clock.Now()
		if ok && !report.Status.IsWrittenAfter(was.report.Status.RenewTime) {
			at = was.at // nor is what somebody else did to it
		}
		r.known[key] = sighting{report, at, was.folded}
		if was.folded != nil && report.fault == "" && was.folded.fault == "" && status.Renewal(&report.Status, &was.folded.Status) {
			return
		}
	}
	r.dirty.raise()
}

// heard is told whether the API server has answered. While it does not, the silence of a proxy is not told from the server's own;
// after that each has its time anew. A standby that counted on through an outage would lead with a fleet of none.
func (r *reports) heard(answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away && answered {
		r.back = r.clock.Now()
		r.dirty.raise()
	}
	r.away = !answered
}

// silence is for how long a report counts as unchanged. One that did not count in the fleet any more does not come back by an outage.
func (r *reports) silence(s *sighting, now time.Time) time.Duration {
	switch since := now.Sub(s.at); {
	case s.folded == nil:
		return since
	case r.away:
		return min(since, r.timeout-guardRetry) // until it is asked again
	default:
		return min(since, now.Sub(r.back))
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *reports) NeedLeaderElection() bool { return false }

// judgeAge looks at the reports that were there before us. We have not seen when they changed, but one that is older than a
// live one may be, against the newest of them and against our own wall clock, is what a dead proxy left: it does not count until
// it changes. Both have to say so, else one proxy whose clock is ahead would make all others look dead. One that is so old by our
// own clock that no skew between nodes explains it does not count either, as none do where the whole fleet was killed. Nothing
// else goes by wall clocks, and this only until a proxy says more: a live one whose clock is far behind, or that could not reach
// the API server for long, comes back with its next renewal.
func (r *reports) judgeAge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	newest := now.Add(-clockSkew)
	for _, s := range r.known {
		if at := s.report.Status.RenewTime.Time; at.After(newest) {
			newest = at
		}
	}
	for key, s := range r.known {
		if at := s.report.Status.RenewTime.Time; newest.Sub(at) >= r.timeout && now.Sub(at).Abs() >= r.timeout {
			s.at = s.at.Add(-r.timeout)
			r.known[key] = s
		}
	}
}

// Start folds the reports until ctx ends, when one changes and when one times out. Those that exist must be known.
func (r *reports) Start(ctx context.Context) error {
	r.judgeAge()
	for {
		next := min(r.fold(), foldEvery)
		began, timer := r.clock.Now(), r.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		case <-r.dirty:
			timer.Stop()
			if !r.dirty.settle(ctx, foldAfter, foldAfter) {
				return nil
			}
		}
		r.waited(began)
	}
}

// waited notices that we were frozen: what proxies wrote meanwhile is still to be read, so each has its time anew.
func (r *reports) waited(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock.Now(); now.Sub(since) > foldEvery+asleep {
		r.back = now
	}
}

// fold makes a new fleet of the live reports and returns how long until the next one may time out.
func (r *reports) fold() time.Duration {
	now, next := r.clock.Now(), r.timeout
	var live []status.Report
	r.mu.Lock()
	for key, s := range r.known {
		left := r.timeout - r.silence(&s, now)
		s.folded = nil
		if left > 0 {
			next, s.folded = min(next, left), s.report
			live = append(live, status.Report{Pod: key.Name, Status: &s.report.Status, Seen: s.at, Unreadable: s.report.fault != ""})
		}
		r.known[key] = s
	}
	r.mu.Unlock()
	last := r.fleet.Load()
	fleet := status.NewFleet(live).HeldTo(last)
	r.fleet.Store(fleet)
	r.changed(fleet.ChangeFrom(last))
	return next
}

// unseenFor returns the reports that have not changed for so long.
func (r *reports) unseenFor(retention time.Duration) []*storedReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	var old []*storedReport
	for _, key := range slices.SortedFunc(maps.Keys(r.known), compareNames) {
		if s := r.known[key]; r.silence(&s, r.clock.Now()) >= retention {
			old = append(old, s.report)
		}
	}
	return old
}

// sweeper deletes reports of proxies that are long gone: we read no Pods. It runs on the leader alone.
type sweeper struct {
	reports   *reports
	writer    client.Writer
	retention time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until ctx ends.
func (s *sweeper) Start(ctx context.Context) error {
	log := logf.FromContext(ctx).WithName("sweeper")
	for {
		for _, old := range s.reports.unseenFor(s.retention) {
			if err := deleteAsSeen(ctx, s.writer, old.DeepCopyObject().(client.Object)); err != nil {
				log.Info("stale report not deleted, trying again later", "report", old.Name, "cause", reasonOf(err))
				continue
			}
			log.Info("deleted the report of a proxy that is gone", "report", old.Name)
		}
		if !pause(ctx, s.reports.clock, s.retention/20) {
			return nil
		}
	}
}

// deleteAsSeen deletes an object unless it has changed since it was read, or is gone.
func deleteAsSeen(ctx context.Context, writer client.Writer, object client.Object) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	err := writer.Delete(ctx, object, client.Preconditions(metav1.Preconditions{UID: &uid, ResourceVersion: &version}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
