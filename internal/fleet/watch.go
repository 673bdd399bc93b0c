package fleet

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// A request that the server refuses is tried again after refusedMin, and ever later up to refusedMax: a missing permission
	// stays, but a server that has just started refuses everybody until it has read its roles.
	refusedMin = 100 * time.Millisecond
	refusedMax = 5 * time.Second
	// refusedTold is the pause from which on a refusal is worth a line in the log.
	refusedTold = time.Second
)

// nextRefusal is the pause after a refusal that followed the pause of the last one.
func nextRefusal(last time.Duration) time.Duration { return min(max(2*last, refusedMin), refusedMax) }

// isRefusal says whether the server answered and would not.
func isRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// watchBackoff stays below a second, so that a returning server finds its watchers; the gate sees to it that they do not
// come all at once while it is down.
var watchBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.6, Jitter: 0.3, Steps: 8, Cap: 700 * time.Millisecond}

// source is one thing that is watched.
type source struct {
	name     string // restricts the watch to one object, so that a Role may name it; empty: all
	client   rest.Interface
	params   runtime.ParameterCodec
	resource string
	// namespace is the proxy's own.
	namespace string
	clock     clock.WithTicker
	// refusals is shared by the watches that one permission allows.
	refusals *refusals
	// outages tells how many times the server has come back (gate.ended). What was read before the last time is read anew: a server
	// that has lost its data counts its versions from the start, and a watch from one of its future would be silent.
	outages func() int
	// These belong to the reflector's goroutine.
	readAt int           // outages when all was read
	pause  time.Duration // after the last refusal; 0: there was none
	told   bool
}

// refusals says once that the server refuses watches, and once that it does so no longer, however many there are.
type refusals struct {
	what string
	log  *slog.Logger

	mu    sync.Mutex
	count int
}

func (r *refusals) begin(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count++; r.count == 1 {
		r.log.Error("the API server refuses a watch; check the Role of the proxy and the CRDs", "what", r.what, "error", err.Error())
	}
}

func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count--; r.count == 0 {
		r.log.Info("the API server allows all watches again", "what", r.what)
	}
}

// run keeps sink up to date with the server until ctx ends.
func (s *source) run(ctx context.Context, example runtime.Object, sink cache.ReflectorStore) {
	// What the reflector would log is said better by the gate and by settle.
	quiet := logr.Discard()
	reflector := cache.NewReflectorWithOptions(s.listWatch(), example, sink, cache.ReflectorOptions{
		Name: s.resource, Logger: &quiet, Backoff: &watchBackoff,
	})
	reflector.RunWithContext(klog.NewContext(ctx, quiet))
}

// listWatch is what the reflector reads with. What is read whole is read as it is now, never from a version that was seen
// before: a server that has lost its data would have clients wait until it has caught up with that.
func (s *source) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			outages := s.outages()
			opts.ResourceVersion = ""
			list, err := s.request(&opts).Do(ctx).Get()
			if err == nil {
				s.readAt = outages
			}
			return list, s.settle(ctx, err)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			w, err := s.watch(ctx, opts)
			return w, s.settle(ctx, err)
		},
	}
}

// errReadAnew has the reflector read all anew.
var errReadAnew = apierrors.NewResourceExpired("the API server was away; all is read anew")

func (s *source) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	whole := opts.SendInitialEvents != nil && *opts.SendInitialEvents // a list in the form of a watch
	outages := s.outages()
	switch {
	case whole:
		opts.ResourceVersion = ""
	case outages != s.readAt:
		return nil, errReadAnew
	}
	w, err := s.request(&opts).Watch(ctx)
	switch {
	case err != nil:
		return nil, err
	case whole:
		s.readAt = outages
	case outages != s.outages(): // the request has waited at the gate
		w.Stop()
		return nil, errReadAnew
	}
	return w, nil
}

func (s *source) request(opts *metav1.ListOptions) *rest.Request {
	if s.name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	}
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(opts, s.params)
}

// settle takes note of a refusal, or of its end, and slows the asking down while it lasts.
func (s *source) settle(ctx context.Context, err error) error {
	if err == nil && s.told {
		s.refusals.end()
	}
	if err == nil {
		s.pause, s.told = 0, false
	}
	if !isRefusal(err) && !apierrors.IsNotFound(err) { // not found: the CRD is missing
		return err
	}
	s.pause = nextRefusal(s.pause)
	if s.pause >= refusedTold && !s.told {
		s.told = true
		s.refusals.begin(err)
	}
	select {
	case <-s.clock.After(s.pause):
	case <-ctx.Done():
	}
	return err
}
