package fleet

import (
	"context"
	"hash/fnv"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	// renewInterval is how often the report is refreshed where nothing changes; a third of reportLifetime.
	renewInterval = 15 * time.Second
	// writeInterval is the least time between two writes that are not urgent.
	writeInterval = time.Second
	// gatherFor lets changes that come together go out together.
	gatherFor = 50 * time.Millisecond
	// spreadPerProxy keeps a large fleet apart: when the table changes all proxies have the same news at one moment.
	spreadPerProxy = 5 * time.Millisecond

	writeTimeout  = 5 * time.Second
	deleteTimeout = 2 * time.Second
	retryMin      = 100 * time.Millisecond
	retryMax      = time.Second

	reports = "proxyreports"
)

// writer keeps this proxy's ProxyReport. Nobody else writes it, so the copy that the last write returned is the truth,
// and a conflict means that the object was replaced: it is read again.
type writer struct {
	client    rest.Interface
	namespace string
	pod       string
	podUID    types.UID
	clock     clock.WithTicker
	log       *slog.Logger
	// status is what is to be reported now, but for renewTime.
	status func() v1alpha1.ProxyReportStatus
	// fleet is how many proxies there are.
	fleet func() int
	// found is called with the report as it was before the first write, nil where there was none.
	found func(*v1alpha1.ProxyReport)

	urgent, changed chan struct{} // capacity 1

	// The rest belongs to run.
	stored    *v1alpha1.ProxyReport // as the API server has it; nil: not known
	lastWrite time.Time
	failing   bool
	retry     time.Duration // the last pause after an error; 0: there was none
	refusal   time.Duration // the same after a refusal
}

// notify asks for a write: at once where urgent, else with others. It never blocks.
func (w *writer) notify(urgent bool) {
	ch := w.changed
	if urgent {
		ch = w.urgent
	}
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run writes until ctx ends, the first time at once.
func (w *writer) run(ctx context.Context) {
	due := w.clock.Now()
	renew := true
	for {
		timer := w.clock.NewTimer(due.Sub(w.clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-w.urgent:
			if !w.failing { // else the retry that is due brings it
				due = w.write(ctx, false)
			}
			renew = !w.failing
		case <-w.changed:
			if soon := w.soon(); !w.failing && soon.Before(due) {
				due, renew = soon, false
			}
		case <-timer.C():
			due = w.write(ctx, renew || w.failing)
			renew = !w.failing
		}
		timer.Stop()
	}
}

// soon is when a change that is not urgent is written.
func (w *writer) soon() time.Time {
	soon := w.clock.Now().Add(gatherFor + w.place())
	if next := w.lastWrite.Add(writeInterval); next.After(soon) {
		return next
	}
	return soon
}

// place is this proxy's place within the time over which the fleet spreads its writes, always the same in a fleet of one size.
func (w *writer) place() time.Duration {
	spread := min(time.Duration(w.fleet())*spreadPerProxy, writeInterval-gatherFor)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(w.pod)) // which never fails
	return spread * time.Duration(hash.Sum32()%1024) / 1024
}

// write writes the report and returns when the next write is due. Without renew, a report that says nothing new is left
// as it is.
func (w *writer) write(ctx context.Context, renew bool) time.Time {
	status := w.status()
	if !renew && w.stored != nil && sameReport(&status, &w.stored.Status) {
		return w.lastWrite.Add(renewInterval)
	}
	status.RenewTime = metav1.MicroTime{Time: w.clock.Now().UTC().Truncate(time.Microsecond)}
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.put(bounded, status)
	now := w.clock.Now()
	if err == nil {
		if w.failing {
			w.log.Info("the proxy report is written again")
		}
		w.failing, w.retry, w.refusal, w.lastWrite = false, 0, 0, now
		return now.Add(renewInterval)
	}
	if !w.failing && ctx.Err() == nil {
		w.log.Warn("the proxy report cannot be written; trying on", "error", err.Error())
	}
	w.failing = true
	if isRefusal(err) {
		w.retry, w.refusal = 0, nextRefusal(w.refusal)
		return now.Add(w.refusal)
	}
	w.retry, w.refusal = min(max(2*w.retry, retryMin), retryMax), 0
	return now.Add(w.retry)
}

// put creates or updates the report.
func (w *writer) put(ctx context.Context, status v1alpha1.ProxyReportStatus) error {
	err := w.putOnce(ctx, status)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		w.stored = nil // it was deleted or replaced
		err = w.putOnce(ctx, status)
	}
	return err
}

func (w *writer) putOnce(ctx context.Context, status v1alpha1.ProxyReportStatus) error {
	if w.stored == nil {
		old := &v1alpha1.ProxyReport{}
		err := w.client.Get().Namespace(w.namespace).Resource(reports).Name(w.pod).Do(ctx).Into(old)
		switch {
		case apierrors.IsNotFound(err):
			w.found(nil)
			return w.create(ctx, status)
		case err != nil:
			return err
		}
		w.found(old)
		w.stored = old
	}
	report := w.report(status)
	report.ResourceVersion = w.stored.ResourceVersion
	result := &v1alpha1.ProxyReport{}
	err := w.client.Put().Namespace(w.namespace).Resource(reports).Name(w.pod).Body(report).Do(ctx).Into(result)
	if err == nil {
		w.stored = result
	}
	return err
}

func (w *writer) create(ctx context.Context, status v1alpha1.ProxyReportStatus) error {
	result := &v1alpha1.ProxyReport{}
	err := w.client.Post().Namespace(w.namespace).Resource(reports).Body(w.report(status)).Do(ctx).Into(result)
	if err == nil {
		w.stored = result
	}
	return err
}

func (w *writer) report(status v1alpha1.ProxyReportStatus) *v1alpha1.ProxyReport {
	report := &v1alpha1.ProxyReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ProxyReport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.pod},
		Status:     status,
	}
	if w.podUID != "" {
		report.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: w.pod, UID: w.podUID}}
	}
	return report
}

// delete takes the report away when the proxy goes. Where that fails, others stop believing it after reportLifetime.
func (w *writer) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	opts := &metav1.DeleteOptions{}
	if w.stored != nil {
		opts.Preconditions = metav1.NewUIDPreconditions(string(w.stored.UID))
	}
	err := w.client.Delete().Namespace(w.namespace).Resource(reports).Name(w.pod).Body(opts).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		w.log.Warn("the proxy report could not be deleted; the others forget it by themselves", "error", err.Error())
	}
}
