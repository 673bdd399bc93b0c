package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/status"
)

// reporter is who Events are from.
const reporter = "spillway-manager"

// conflicts is how often a write that met a conflict is decided anew on a live read before it goes back to the queue.
const conflicts = 4

// statusWriter writes status: it has somebody decide on what is stored, and patches the difference with an optimistic
// lock, so that conditions of others survive. A conflict is no error.
type statusWriter struct {
	client   client.Client
	live     client.Reader // past the cache
	recorder events.EventRecorder
}

// decision returns the object with the status that it should have and what is to be told of it; nil where it has that
// status. It must not change what is stored.
type decision func(stored client.Object) (desired client.Object, tell []status.Event)

// write says whether it has written, and whether it gave up on conflicts and wants to be called again.
func (w *statusWriter) write(ctx context.Context, stored client.Object, decide decision) (wrote, again bool, err error) {
	for range conflicts {
		desired, tell := decide(stored)
		if desired == nil {
			return false, false, nil
		}
		err := w.client.Status().Patch(ctx, desired, client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{}))
		switch {
		case err == nil:
			w.tell(desired, tell)
			return true, false, nil
		case apierrors.IsNotFound(err), ctx.Err() != nil: // it is gone, or we are to go
			return false, false, nil
		case !apierrors.IsConflict(err):
			return false, false, err
		}
		if stored, err = w.read(ctx, stored); err != nil {
			return false, false, client.IgnoreNotFound(err)
		}
	}
	return false, true, nil
}

// read returns an object as the API server has it now.
func (w *statusWriter) read(ctx context.Context, stored client.Object) (client.Object, error) {
	kind, err := w.client.GroupVersionKindFor(stored)
	if err != nil {
		return nil, err
	}
	empty, err := w.client.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	live := empty.(client.Object)
	return live, w.live.Get(ctx, client.ObjectKeyFromObject(stored), live)
}

// tell records Events on an object. The recorder takes Events of one object, type, reason and action for repetitions of the
// first and drops their text, so what is said of each backend is an action of its own.
func (w *statusWriter) tell(about client.Object, told []status.Event) {
	for _, e := range told {
		action := "Observe"
		if e.Backend != "" {
			action += "/" + e.Backend
		}
		w.recorder.Eventf(about, nil, e.Type, string(e.Reason), action, "%s", e.Note)
	}
}
