package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/internal/compiler"
)

// world is what the informers say, indexed for a compile. Objects in it are shared with the informers and never changed.
type world struct {
	mu       sync.RWMutex
	routes   sorted[*storedRoute]
	pins     sorted[*storedPin]
	services map[types.NamespacedName]*corev1.Service
	// versions of the Secrets and ConfigMaps that exist: their content is not watched.
	versions map[compiler.Reference]version
	// named counts the routes that name an object, so that an event of any other is nothing to us.
	named map[compiler.Reference]int

	dirty signal // something that a compile reads has changed
	// onRoute, onPin and onSecret are told of each event of an object, after the world has it. They must not block.
	onRoute, onPin func(types.NamespacedName)
	onSecret       func(key types.NamespacedName, version string)
}

func newWorld() *world {
	return &world{
		services: map[types.NamespacedName]*corev1.Service{}, versions: map[compiler.Reference]version{},
		named: map[compiler.Reference]int{}, dirty: newSignal(),
		onRoute: func(types.NamespacedName) {}, onPin: func(types.NamespacedName) {},
		onSecret: func(types.NamespacedName, string) {},
	}
}

// watches returns what feeds the world from informers, one for each kind.
func (w *world) watches(c cache.Cache) []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { return handle(ctx, c, &storedRoute{}, w.setRoute) },
		func(ctx context.Context) error { return handle(ctx, c, &storedPin{}, w.setPin) },
		func(ctx context.Context) error { return handle(ctx, c, &corev1.Service{}, w.setService) },
		func(ctx context.Context) error {
			return handle(ctx, c, metadataOf(secretKind), w.setVersion(compiler.KindSecret))
		},
		func(ctx context.Context) error {
			return handle(ctx, c, metadataOf(configMapKind), w.setVersion(compiler.KindConfigMap))
		},
	}
}

// handle has set called for each event of a kind, with a nil object when it is gone. It returns once set has been called for
// all that exist.
func handle[T client.Object](ctx context.Context, c cache.Cache, kind T, set func(types.NamespacedName, T)) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	var none T
	put := func(object any) {
		if o, ok := object.(T); ok {
			set(client.ObjectKeyFromObject(o), o)
		}
	}
	registered, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, object any) { put(object) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			if o, ok := object.(T); ok {
				set(client.ObjectKeyFromObject(o), none)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	select {
	case <-registered.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) setRoute(key types.NamespacedName, route *storedRoute) {
	w.mu.Lock()
	was := w.routes.compiled(key)
	changed := was == nil || route == nil || differs(was, route) || was.fault != route.fault || !reflect.DeepEqual(was.Spec, route.Spec)
	w.routes.put(key, route, route != nil, changed)
	if changed {
		w.rename(was, route)
	}
	w.mu.Unlock()
	if changed {
		w.dirty.raise()
	}
	w.onRoute(key)
}

// rename keeps the count of who names what.
func (w *world) rename(was, is *storedRoute) {
	for _, ref := range referencesOf(was) {
		if w.named[ref]--; w.named[ref] <= 0 {
			delete(w.named, ref)
		}
	}
	for _, ref := range referencesOf(is) {
		w.named[ref]++
	}
}

func referencesOf(route *storedRoute) []compiler.Reference {
	if route == nil {
		return nil
	}
	return compiler.References(&route.LLMRoute)
}

func (w *world) setPin(key types.NamespacedName, pin *storedPin) {
	w.mu.Lock()
	was := w.pins.compiled(key)
	changed := was == nil || pin == nil || differs(was, pin) || was.fault != pin.fault || !reflect.DeepEqual(was.Spec, pin.Spec)
	w.pins.put(key, pin, pin != nil, changed)
	w.mu.Unlock()
	if changed {
		w.dirty.raise()
	}
	w.onPin(key)
}

// differs says whether an update is more than one of status, which we write ourselves, as far as the metadata tells. Mostly the
// generation stands for the spec, but not where another CRD takes fields away.
func differs(was, is client.Object) bool {
	return was.GetUID() != is.GetUID() || was.GetGeneration() != is.GetGeneration() ||
		!maps.Equal(was.GetLabels(), is.GetLabels())
}

func (w *world) setService(key types.NamespacedName, service *corev1.Service) {
	w.mu.Lock()
	was := w.services[key]
	if service == nil {
		delete(w.services, key)
	} else {
		w.services[key] = service
	}
	named := w.named[compiler.Reference{Kind: compiler.KindService, Namespace: key.Namespace, Name: key.Name}] > 0
	w.mu.Unlock()
	if named && (was == nil || service == nil || !equality.Semantic.DeepEqual(was.Spec, service.Spec)) {
		w.dirty.raise()
	}
}

func (w *world) setVersion(kind compiler.Kind) func(types.NamespacedName, *metav1.PartialObjectMetadata) {
	return func(key types.NamespacedName, object *metav1.PartialObjectMetadata) {
		ref := compiler.Reference{Kind: kind, Namespace: key.Namespace, Name: key.Name}
		var is version
		if object != nil {
			is = version{object.UID, object.ResourceVersion}
		}
		w.mu.Lock()
		was := w.versions[ref]
		if object == nil {
			delete(w.versions, ref)
		} else {
			w.versions[ref] = is
		}
		named := w.named[ref] > 0
		w.mu.Unlock()
		if named && was != is {
			w.dirty.raise()
		}
		if kind == compiler.KindSecret {
			w.onSecret(key, is.resource)
		}
	}
}

// route returns a route as the informer has it, or nil.
func (w *world) route(key types.NamespacedName) *storedRoute {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.routes.latest(key)
}

// pin returns a pin as the informer has it, or nil.
func (w *world) pin(key types.NamespacedName) *storedPin {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.pins.latest(key)
}

// snapshot returns what a compile reads, apart from the Secrets and ConfigMaps, and the versions of those that are named
// and exist. Routes and pins are in the order of their keys.
func (w *world) snapshot() (compiler.Snapshot, map[compiler.Reference]version) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	s := compiler.Snapshot{Services: map[types.NamespacedName]*corev1.Service{}}
	for i, key := range w.routes.keys {
		r := w.routes.objects[i].compiled
		if r.fault != "" {
			s.Undecodable = append(s.Undecodable, compiler.Undecodable{Kind: compiler.KindRoute, Key: key, UID: r.UID, Generation: r.Generation, Detail: r.fault})
			continue
		}
		s.Routes = append(s.Routes, &r.LLMRoute)
	}
	for i, key := range w.pins.keys {
		p := w.pins.objects[i].compiled
		if p.fault != "" {
			s.Undecodable = append(s.Undecodable, compiler.Undecodable{Kind: compiler.KindPin, Key: key, UID: p.UID, Generation: p.Generation, Detail: p.fault})
			continue
		}
		s.Pins = append(s.Pins, &p.BackendPin)
	}
	wanted := map[compiler.Reference]version{}
	for ref := range w.named {
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if ref.Kind == compiler.KindService {
			if service := w.services[key]; service != nil {
				s.Services[key] = service
			}
		} else if seen, exists := w.versions[ref]; exists {
			wanted[ref] = seen
		}
	}
	return s, wanted
}

// keysOf returns the keys of all routes and of all pins.
func (w *world) keysOf() (routes, pins []types.NamespacedName) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.routes.keys), slices.Clone(w.pins.keys)
}

// sorted is objects in the order of their keys: one changes, and then all are read. The zero value is empty.
type sorted[V comparable] struct {
	keys    []types.NamespacedName
	objects []versions[V] // by keys
}

// versions are an object as it is now, and as compiles read it, which stays the same value while nothing changes that they look
// at: see compiler.Recompile.
type versions[V comparable] struct{ latest, compiled V }

func (s *sorted[V]) find(key types.NamespacedName) (found versions[V]) {
	if at, ok := slices.BinarySearchFunc(s.keys, key, compareNames); ok {
		found = s.objects[at]
	}
	return found
}

func (s *sorted[V]) latest(key types.NamespacedName) V   { return s.find(key).latest }
func (s *sorted[V]) compiled(key types.NamespacedName) V { return s.find(key).compiled }

// put stores an object, or takes it out where it is not there any more. changed says whether compiles are to read it anew.
func (s *sorted[V]) put(key types.NamespacedName, object V, there, changed bool) {
	at, known := slices.BinarySearchFunc(s.keys, key, compareNames)
	switch {
	case !there && known:
		s.keys, s.objects = slices.Delete(s.keys, at, at+1), slices.Delete(s.objects, at, at+1)
	case there && !known:
		s.keys, s.objects = slices.Insert(s.keys, at, key), slices.Insert(s.objects, at, versions[V]{object, object})
	case there && changed:
		s.objects[at] = versions[V]{object, object}
	case there:
		s.objects[at].latest = object
	}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
