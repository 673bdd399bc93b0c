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

// refusedPause is how long a watch that the server refuses (a missing permission, a missing CRD) waits before it asks
// again: unlike an outage, that is not over in a moment.
const refusedPause = 5 * time.Second

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
	refused  bool // belongs to the reflector's goroutine
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

func (s *source) listWatch() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := s.request(&opts).Do(ctx).Get()
			return list, s.settle(ctx, err)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			w, err := s.request(&opts).Watch(ctx)
			return w, s.settle(ctx, err)
		},
	}
}

func (s *source) request(opts *metav1.ListOptions) *rest.Request {
	if s.name != "" {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
	}
	return s.client.Get().Namespace(s.namespace).Resource(s.resource).VersionedParams(opts, s.params)
}

// settle takes note of a refusal, or of its end, and slows the asking down while it lasts.
func (s *source) settle(ctx context.Context, err error) error {
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
	switch {
	case refused && !s.refused:
		s.refused = true
		s.refusals.begin(err)
	case err == nil && s.refused:
		s.refused = false
		s.refusals.end()
	}
	if refused {
		select {
		case <-s.clock.After(refusedPause):
		case <-ctx.Done():
		}
	}
	return err
}
