package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	// namespaces share the routes among them.
	namespaces = 100
	// writers create objects at a time.
	writers = 16
	// Physical models of the backend: one answers, one says that it is full.
	modelWell, modelFull = "well", "full"
)

func namespaceOf(n int) string { return fmt.Sprintf("team-%02d", n) }
func routeName(i int) string   { return fmt.Sprintf("route-%03d", i) }

// backend answers for all routes.
func backend() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a caller that left is no matter
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(string(body), `"`+modelFull+`"`) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","model":"well","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
	})
}

// route is one of the routes: two backends of its own, and one that all of its namespace share.
func (b *bench) route(n, i int) *v1alpha1.LLMRoute {
	first := modelWell
	if i == 0 {
		first = modelFull // it opens with the first call
	}
	url := b.backend.URL + "/v1"
	return &v1alpha1.LLMRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(n), Name: routeName(i)},
		Spec: v1alpha1.LLMRouteSpec{
			Chain: []v1alpha1.Backend{
				{Name: "tower", URL: fmt.Sprintf("%s?tower=%d-%d", url, n, i), Model: first, MaxInFlight: 1},
				{Name: "pool", URL: fmt.Sprintf("%s?pool=%d-%d", url, n, i), Model: modelWell},
				{Name: "hosted", URL: url, Model: modelWell,
					Auth: &v1alpha1.BackendAuth{SecretRef: v1alpha1.SecretKeyRef{Name: "hosted", Key: "api-key"}}},
			},
			RateLimit: v1alpha1.RateLimit{Requests: ptr.To[int32](0)},
		},
	}
}

func (b *bench) pin(n, i int) *v1alpha1.BackendPin {
	return &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(n), Name: fmt.Sprintf("pin-%d", i)},
		Spec: v1alpha1.BackendPinSpec{
			Routes: v1alpha1.PinRoutes{Names: []string{routeName(2 + i%8)}}, Backend: "hosted", Mode: v1alpha1.PinPrefer, Duration: "4h", Reason: "bench",
		},
	}
}

// create makes the namespaces, Secrets, routes and pins.
func (b *bench) create(ctx context.Context) error {
	b.routes = watchRoutes(ctx, b.api)
	var first, rest []client.Object
	for n := range namespaces {
		first = append(first, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(n)}})
		rest = append(rest, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(n), Name: "hosted"},
			StringData: map[string]string{"api-key": "sk-0123456789abcdef0123456789abcdef"}})
	}
	for i := range b.options.routes {
		rest = append(rest, b.route(i%namespaces, i/namespaces))
	}
	for i := range b.options.pins {
		rest = append(rest, b.pin(i%namespaces, i/namespaces))
	}
	if err := b.createAll(ctx, first); err != nil {
		return err
	}
	if err := b.createAll(ctx, rest); err != nil {
		return err
	}
	return b.routes.await(ctx, b.options.routes, func(r *v1alpha1.LLMRoute) bool { return r.Status.Proxies == "2/2" && isReady(r) })
}

func (b *bench) createAll(ctx context.Context, objects []client.Object) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan client.Object)
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for o := range next {
				if err := b.api.Create(ctx, o); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, o := range objects {
		next <- o
	}
	close(next)
	wait.Wait()
	return context.Cause(ctx)
}

func isReady(r *v1alpha1.LLMRoute) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == string(v1alpha1.ConditionReady) {
			return c.Status == metav1.ConditionTrue && c.ObservedGeneration == r.Generation
		}
	}
	return false
}

// watched is what a watch of all routes has said.
type watched struct {
	mu      sync.Mutex
	latest  map[types.NamespacedName]*v1alpha1.LLMRoute
	told    func(*v1alpha1.LLMRoute) // called with each event, if set
	changed chan struct{}            // capacity 1
}

func watchRoutes(ctx context.Context, api client.WithWatch) *watched {
	w := &watched{latest: map[types.NamespacedName]*v1alpha1.LLMRoute{}, changed: make(chan struct{}, 1)}
	go follow(ctx, api, &v1alpha1.LLMRouteList{}, w.set)
	return w
}

// follow calls set for each object of a list and for each change of one, until ctx ends. The API server may end a watch at any
// time.
func follow[T client.Object](ctx context.Context, api client.WithWatch, list client.ObjectList, set func(T), options ...client.ListOption) {
	for ctx.Err() == nil {
		err := api.List(ctx, list, options...)
		if err == nil {
			err = meta.EachListItem(list, func(o runtime.Object) error { set(o.(T)); return nil })
		}
		if err != nil {
			_ = pause(ctx, 100*time.Millisecond) // the loop looks at ctx
			continue
		}
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}}
		events, err := api.Watch(ctx, list, append(options, from)...)
		if err != nil {
			continue
		}
		for e := range events.ResultChan() {
			if o, ok := e.Object.(T); ok {
				set(o)
			}
		}
	}
}

func (w *watched) set(r *v1alpha1.LLMRoute) {
	r.ManagedFields = nil
	w.mu.Lock()
	w.latest[client.ObjectKeyFromObject(r)] = r
	if w.told != nil {
		w.told(r)
	}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// tell has f called with each event from now on.
func (w *watched) tell(f func(*v1alpha1.LLMRoute)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = f
}

// all returns the routes as they are known, in no order.
func (w *watched) all() []*v1alpha1.LLMRoute {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*v1alpha1.LLMRoute
	for _, r := range w.latest {
		all = append(all, r)
	}
	return all
}

// await waits until so many routes are as ok wants them.
func (w *watched) await(ctx context.Context, n int, ok func(*v1alpha1.LLMRoute) bool) error {
	for {
		good := 0
		for _, r := range w.all() {
			if ok(r) {
				good++
			}
		}
		if good >= n {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d routes are as they should be: %w", good, n, err)
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d routes are as they should be: %w", good, n, context.Cause(ctx))
		}
	}
}
