package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/pin"
	"github.com/spillway-dev/spillway/internal/status"
)

// statusEvery is the shortest time between two status writes of one object: of a burst the first is written at once, and
// what it comes to after that.
const statusEvery = time.Second

// routes writes the status of LLMRoutes.
type routes struct {
	world     *world
	compiling *compiling
	reports   *reports
	ledger    *ledger
	skews     *skews
	writer    *statusWriter
	clock     clock.PassiveClock
	pace      *pace
	// known says whether we know all that proxies serve and report. Before that a status would say that they do not.
	known func() bool
	// inForce is what of a compilation proxies go by, see publisher.
	inForce func(*compilation) (set *compiler.ShardSet, behind bool)
}

// Reconcile implements reconcile.Reconciler.
func (r *routes) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	route, compiled := r.world.route(key), r.compiling.latest.Load()
	if route == nil {
		r.pace.forget(key)
		return reconcile.Result{}, nil
	}
	if !r.known() || compiled == nil || !compiled.Routes[key].IsOn(route) {
		return reconcile.Result{}, nil // what is still to come calls again
	}
	now := r.clock.Now()
	if wait := r.pace.wait(key, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	wrote, again, err := r.writer.write(ctx, route, func(stored client.Object) (client.Object, []status.Event) {
		return r.decide(compiled, stored.(*storedRoute), now)
	})
	if wrote {
		r.pace.wrote(key, now)
	}
	if err != nil || again {
		return reconcile.Result{RequeueAfter: backOff(again)}, err
	}
	set, _ := r.inForce(compiled)
	return reconcile.Result{RequeueAfter: untilEdge(pin.NextEdge(set.Route(key), now), now)}, nil
}

// decide returns the route with its new status, or nil where it has that already or is not what was compiled.
func (r *routes) decide(compiled *compilation, stored *storedRoute, now time.Time) (client.Object, []status.Event) {
	key := client.ObjectKeyFromObject(stored)
	set, _ := r.inForce(compiled)
	in := status.RouteInput{
		Route: &stored.LLMRoute, Verdict: compiled.Routes[key], Entry: set.Route(key),
		Fleet: r.reports.fleet.Load(), Holding: r.ledger.holding(stored), Skew: r.skews.ofRoute(stored), Now: now,
	}
	if !in.Verdict.IsOn(stored) {
		return nil, nil
	}
	after := status.Route(in)
	if equality.Semantic.DeepEqual(stored.Status, after) {
		return nil, nil
	}
	desired := stored.DeepCopyObject().(*storedRoute)
	desired.Status = after
	return desired, status.RouteEvents(in, &after)
}

// backOff is when a write that gave up on conflicts is tried again; 0 where it did not.
func backOff(again bool) time.Duration {
	if again {
		return statusEvery
	}
	return 0
}

// untilEdge is how long until an instant, and a moment more, so that it has passed; 0 for none.
func untilEdge(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), 0) + time.Millisecond
}

// pace keeps status writes of one object apart.
type pace struct {
	mu   sync.Mutex
	last map[types.NamespacedName]time.Time
}

func newPace() *pace { return &pace{last: map[types.NamespacedName]time.Time{}} }

// wait is how long the next write of an object has to wait.
func (p *pace) wait(key types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.last[key]; ok {
		return last.Add(statusEvery).Sub(now)
	}
	return 0
}

func (p *pace) wrote(key types.NamespacedName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[key] = now
}

func (p *pace) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}
