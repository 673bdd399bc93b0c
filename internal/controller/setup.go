package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/spillway-dev/spillway/internal/status"
	"github.com/spillway-dev/spillway/internal/table"
)

// Setup adds everything that the manager does to mgr, which must have been made with ManagerOptions. The work begins when
// the CRDs are served; until the first compile the manager is not ready.
func Setup(mgr ctrl.Manager, o Options) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	s := newSystem(mgr, o)
	ready := func(*http.Request) error {
		if s.compiling.latest.Load() == nil {
			return errors.New("nothing is compiled yet")
		}
		return nil
	}
	if err := mgr.AddReadyzCheck("compiled", ready); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	return mgr.Add(&bootstrap{mgr: mgr, system: s})
}

// system is the parts of the manager, wired.
type system struct {
	world     *world
	reports   *reports
	compiling *compiling
	ledger    *ledger
	publisher *publisher
	sweeper   *sweeper
	skews     *skews
	guard     *guard
	jumps     *jumps
	routes    *routes
	pins      *pins

	toRoutes, toPins feed
}

func newSystem(mgr ctrl.Manager, o Options) *system {
	s := &system{world: newWorld(), reports: newReports(o.Clock, o.ReportTimeout)}
	s.ledger = &ledger{fleet: s.reports.fleet.Load, fresh: func(keys []types.NamespacedName) { s.toRoutes.add(keys...) }}
	writer := &statusWriter{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: mgr.GetEventRecorder(reporter)}
	owner := newOwner(o, mgr.GetAPIReader())
	s.compiling = &compiling{
		world: s.world, fetcher: newFetcher(mgr.GetAPIReader()), writer: mgr.GetClient(), reader: mgr.GetAPIReader(),
		owner: owner, options: o, clock: o.Clock,
	}
	s.publisher = &publisher{
		writer: mgr.GetClient(), reader: mgr.GetAPIReader(), namespace: o.Namespace, owner: owner, compiling: s.compiling, ledger: s.ledger,
		metrics: o.Metrics, wake: newSignal(), seen: map[int]bool{},
	}
	s.sweeper = &sweeper{reports: s.reports, writer: mgr.GetClient(), retention: o.ReportRetention}
	s.guard = &guard{reader: mgr.GetAPIReader(), namespace: o.Namespace, clock: o.Clock, heard: s.reports.heard}
	s.jumps = &jumps{clock: o.Clock, jumped: s.lookAgain}
	s.skews = &skews{reader: mgr.GetAPIReader(), metrics: o.Metrics, clock: o.Clock}
	s.routes = &routes{
		world: s.world, compiling: s.compiling, reports: s.reports, ledger: s.ledger, inForce: s.publisher.inForce, skews: s.skews, writer: writer, clock: o.Clock,
		pace: newPace(), known: func() bool { return s.publisher.loaded.Load() && s.reports.fleet.Load() != nil },
	}
	s.pins = &pins{
		world: s.world, compiling: s.compiling, inForce: s.publisher.inForce, skews: s.skews, writer: writer, clock: o.Clock,
		retention: o.PinRetention, pace: newPace(),
	}
	s.connect(o.Namespace)
	return s
}

// connect says who is told of what.
func (s *system) connect(namespace string) {
	s.world.onRoute = func(key types.NamespacedName) { s.toRoutes.add(key) }
	s.world.onPin = func(key types.NamespacedName) { s.toPins.add(key) }
	s.world.onSecret = func(key types.NamespacedName, version string) {
		if key.Namespace != namespace {
			return
		}
		if index, ok := table.ShardIndex(key.Name); ok {
			s.publisher.noticed(index, version)
		}
		if key.Name == SaltSecretName && version == "" {
			s.compiling.saltGone.Store(true)
			s.world.dirty.raise()
		}
	}
	s.publisher.onLoad = func() {
		routes, _ := s.world.keysOf()
		s.toRoutes.add(routes...)
	}
	s.publisher.onBehind = s.lookAtAll
	s.skews.changed = s.lookAtAll
	s.compiling.compiled = s.publisher.wake.raise
	s.compiling.changed = func(routes, pins []types.NamespacedName) {
		s.toRoutes.add(routes...)
		s.toPins.add(pins...)
	}
	s.reports.changed = func(c status.Change) { s.toRoutes.add(s.concernedBy(c)...) }
}

// lookAtAll has the status of every route and pin looked at.
func (s *system) lookAtAll() {
	routes, pins := s.world.keysOf()
	s.toRoutes.add(routes...)
	s.toPins.add(pins...)
}

// lookAgain has everything looked at that goes by the wall clock.
func (s *system) lookAgain() {
	s.world.dirty.raise()
	s.lookAtAll()
}

// concernedBy returns the routes whose status a change of the fleet may touch.
func (s *system) concernedBy(c status.Change) []types.NamespacedName {
	if c.All {
		routes, _ := s.world.keysOf()
		return routes
	}
	compiled := s.compiling.latest.Load()
	if compiled == nil {
		return nil // the first compile concerns them all
	}
	var routes []types.NamespacedName
	for _, m := range c.Moves {
		routes = append(routes, s.ledger.concerned(m)...)
	}
	for _, id := range c.Backends {
		routes = append(routes, compiled.naming()[id]...)
	}
	return routes
}

// bootstrap waits for the CRDs, fills the caches and starts the rest.
type bootstrap struct {
	mgr    ctrl.Manager
	system *system
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (b *bootstrap) NeedLeaderElection() bool { return false }

// Start returns when everything runs; the manager keeps what was added to it.
func (b *bootstrap) Start(ctx context.Context) error {
	log := b.mgr.GetLogger().WithName("setup")
	d, err := discovery.NewDiscoveryClientForConfigAndClient(b.mgr.GetConfig(), b.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("make a discovery client: %w", err)
	}
	if err := waitForCRDs(ctx, d, log); err != nil {
		return ignoreEnd(ctx, err)
	}
	s := b.system
	if err := together(ctx, append(s.world.watches(b.mgr.GetCache()), s.reports.watch(b.mgr.GetCache()))); err != nil {
		return ignoreEnd(ctx, err)
	}
	for _, part := range []manager.Runnable{s.compiling, s.reports, s.publisher, s.sweeper, s.skews, s.guard, s.jumps} {
		if err := b.mgr.Add(part); err != nil {
			return fmt.Errorf("start a part of the manager: %w", err)
		}
	}
	allRoutes := func() []types.NamespacedName { routes, _ := s.world.keysOf(); return routes }
	allPins := func() []types.NamespacedName { _, pins := s.world.keysOf(); return pins }
	return errors.Join(
		b.control("llmroute-status", s.routes, &s.toRoutes, allRoutes),
		b.control("backendpin-status", s.pins, &s.toPins, allPins),
	)
}

// together runs all at once and returns when all have.
func together(ctx context.Context, all []func(context.Context) error) error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, f := range all {
		wait.Go(func() { errs[i] = f(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// ignoreEnd turns an error into none where it only says that we are to stop.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// control runs a reconciler on the leader, beginning with all objects of its kind.
func (b *bootstrap) control(name string, r reconcile.Reconciler, from *feed, all func() []types.NamespacedName) error {
	unique := true // several managers share one process in tests
	c, err := controller.New(name, b.mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: 8,
		SkipNameValidation:      &unique,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return fmt.Errorf("make the controller %s: %w", name, err)
	}
	return c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		from.attach(q)
		from.add(all()...)
		return nil
	}))
}
