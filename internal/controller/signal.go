package controller

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// signal says that something happened, any number of times, to one listener. It is a channel with room for one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// raise never blocks.
func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// settle waits until the signal has been quiet for a while, or for so long in all, so that a burst is one change. It
// returns false when ctx ends.
func (s signal) settle(ctx context.Context, quiet, longest time.Duration) bool {
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-deadline.C:
			return true
		case <-calm.C:
			return true
		case <-s:
			calm.Reset(quiet)
		}
	}
}

// pause waits for so long. It returns false when ctx ends.
func pause(ctx context.Context, clk clock.Clock, d time.Duration) bool {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// queue is the part of a work queue that a feed fills.
type queue interface{ Add(reconcile.Request) }

// feed brings keys to the queue of a reconciler, from the moment that it runs. Before that there is nothing to do: a
// reconciler begins with all objects.
type feed struct {
	mu sync.RWMutex
	to queue
}

func (f *feed) attach(q queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = q
}

func (f *feed) add(keys ...types.NamespacedName) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.to == nil {
		return
	}
	for _, key := range keys {
		f.to.Add(reconcile.Request{NamespacedName: key})
	}
}
