package controller

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/internal/compiler"
)

// fetchers is how many objects are read at a time.
const fetchers = 16

// version is what of an object's content the informers know: another one means another content.
type version struct {
	uid      types.UID
	resource string // resourceVersion
}

// fetcher reads the Secrets and ConfigMaps that routes name past the informers, each once per version, and holds no others. It
// is for one goroutine.
type fetcher struct {
	reader    client.Reader
	held      map[compiler.Reference]client.Object
	forbidden map[compiler.Reference]bool // at the last fill
}

func newFetcher(reader client.Reader) *fetcher {
	return &fetcher{reader: reader, held: map[compiler.Reference]client.Object{}}
}

// fill reads what is wanted (by version) into the snapshot. An object that is gone or that we may not read is absent from
// it. Where reading fails otherwise the object as it was last read stands in, and failed holds one of the errors.
func (f *fetcher) fill(ctx context.Context, s *compiler.Snapshot, wanted map[compiler.Reference]version) (failed error) {
	s.Secrets = map[types.NamespacedName]*corev1.Secret{}
	s.ConfigMaps = map[types.NamespacedName]*corev1.ConfigMap{}
	s.Forbidden = map[compiler.Reference]bool{}
	next := make(map[compiler.Reference]client.Object, len(wanted))
	var mu sync.Mutex
	var wait sync.WaitGroup
	slots := make(chan struct{}, fetchers)
	for ref, seen := range wanted {
		if held := f.held[ref]; held != nil && held.GetUID() == seen.uid && !older(held.GetResourceVersion(), seen.resource) {
			mu.Lock()
			next[ref] = held
			mu.Unlock()
			continue
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			object, err := f.read(ctx, ref)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case apierrors.IsForbidden(err):
				s.Forbidden[ref] = true
				return
			case err != nil:
				failed, object = err, f.held[ref]
			}
			if object != nil {
				next[ref] = object
			}
		})
	}
	wait.Wait()
	f.sayForbidden(ctx, s.Forbidden)
	f.held, f.forbidden = next, s.Forbidden
	for ref, object := range next {
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		switch o := object.(type) {
		case *corev1.Secret:
			s.Secrets[key] = o
		case *corev1.ConfigMap:
			s.ConfigMaps[key] = o
		}
	}
	return failed
}

// read returns nil where there is nothing to read.
func (f *fetcher) read(ctx context.Context, ref compiler.Reference) (client.Object, error) {
	var object client.Object = &corev1.Secret{}
	if ref.Kind == compiler.KindConfigMap {
		object = &corev1.ConfigMap{}
	}
	err := f.reader.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, object)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// sayForbidden tells of objects that could be read before, or were not named: the permission to read them is ours to have.
func (f *fetcher) sayForbidden(ctx context.Context, forbidden map[compiler.Reference]bool) {
	for ref := range forbidden {
		if !f.forbidden[ref] {
			logf.FromContext(ctx).Info("the manager may not read an object that a route names, so its backend is left out",
				"kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
		}
	}
}

// older says whether one resourceVersion of an object lies before another. Where they cannot be compared it says so
// whenever they differ.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err != nil {
		return version != than
	}
	return order < 0
}
