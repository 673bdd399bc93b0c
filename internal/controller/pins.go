package controller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/status"
)

// pins writes the status of BackendPins and deletes those that ended long ago.
type pins struct {
	world     *world
	compiling *compiling
	skews     *skews
	writer    *statusWriter
	clock     clock.PassiveClock
	retention time.Duration
	pace      *pace
	// inForce is what of a compilation proxies go by, see publisher.
	inForce func(*compilation) (set *compiler.ShardSet, behind bool)
}

// Reconcile implements reconcile.Reconciler.
func (p *pins) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	pin, compiled := p.world.pin(key), p.compiling.latest.Load()
	if pin == nil {
		p.pace.forget(key)
		return reconcile.Result{}, nil
	}
	if compiled == nil || !compiled.Pins[key].IsOn(pin) {
		return reconcile.Result{}, nil // the compile that is due calls again
	}
	now := p.clock.Now()
	if wait := p.pace.wait(key, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	wrote, again, err := p.writer.write(ctx, pin, func(stored client.Object) (client.Object, []status.Event) {
		return p.decide(compiled, stored.(*storedPin), now)
	})
	if wrote {
		p.pace.wrote(key, now)
	}
	if err != nil || again {
		return reconcile.Result{RequeueAfter: backOff(again)}, err
	}
	return p.end(ctx, pin, compiled, now)
}

// decide returns the pin with its new status, or nil where it has that already or is not what was compiled.
func (p *pins) decide(compiled *compilation, stored *storedPin, now time.Time) (client.Object, []status.Event) {
	verdict := compiled.Pins[client.ObjectKeyFromObject(stored)]
	if !verdict.IsOn(stored) {
		return nil, nil
	}
	set, behind := p.inForce(compiled)
	in := status.PinInput{
		Pin: &stored.BackendPin, Verdict: verdict, Routes: entriesOf(set, verdict), Behind: behind, Skew: p.skews.ofPin(stored), Now: now,
	}
	after := status.Pin(in)
	if equality.Semantic.DeepEqual(stored.Status, after) {
		return nil, nil
	}
	desired := stored.DeepCopyObject().(*storedPin)
	desired.Status = after
	return desired, status.PinEvents(in, &after)
}

// end deletes a pin whose retention is over, and says when to look at the pin again.
func (p *pins) end(ctx context.Context, pin *storedPin, compiled *compilation, now time.Time) (reconcile.Result, error) {
	verdict := compiled.Pins[client.ObjectKeyFromObject(pin)]
	edge := status.NextChange(verdict, now)
	if edge.IsZero() && verdict.Accepted() {
		edge = endOf(pin, verdict).Add(p.retention)
		// What is stored may be newer than what we know: an end that was moved is not deleted.
		if !now.Before(edge) && pin.Status.Phase == v1alpha1.PinExpired {
			return reconcile.Result{}, deleteAsSeen(ctx, p.writer.client, pin.DeepCopyObject().(client.Object))
		}
	}
	// Whether this pin is superseded may change when another one of the namespace starts or ends.
	if other := compiled.NextPinEdge(pin.Namespace, now); !other.IsZero() && (edge.IsZero() || other.Before(edge)) {
		edge = other
	}
	return reconcile.Result{RequeueAfter: untilEdge(edge, now)}, nil
}

// endOf is when a pin has ended. One that was made, or edited, to have ended long ago has only now.
func endOf(pin *storedPin, verdict *compiler.PinVerdict) time.Time {
	end := verdict.ExpiresAt
	if created := pin.CreationTimestamp.Time; created.After(end) {
		end = created
	}
	active := meta.FindStatusCondition(pin.Status.Conditions, string(v1alpha1.ConditionActive))
	if active != nil && active.Reason == string(v1alpha1.ReasonExpired) && active.LastTransitionTime.After(end) {
		end = active.LastTransitionTime.Time
	}
	return end
}
