package controller

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/jsonpath"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/status"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// compareCRDsEvery is how often the served CRDs are compared with the fields of this release: somebody may apply others at
// any time, of either release.
const compareCRDsEvery = 30 * time.Second

// skew is how a served CRD differs from this release, as sorted paths of fields.
type skew struct {
	missing []string // the CRD lacks them: it is older, and the API server drops them
	unknown []string // we lack them: the CRD is newer, and what is set there does nothing
}

// skews compares the served CRDs with this release and says loudly how they differ: what either side does not know is
// dropped in silence otherwise. It never stops the manager. It runs on every replica.
type skews struct {
	reader  client.Reader // past the cache
	metrics Metrics
	clock   clock.Clock
	// found holds what is known, by resource. The map is never changed.
	found atomic.Pointer[map[string]skew]
	// changed is told when found differs.
	changed func()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *skews) NeedLeaderElection() bool { return false }

// Start compares until ctx ends.
func (s *skews) Start(ctx context.Context) error {
	for {
		s.compare(ctx)
		if !pause(ctx, s.clock, compareCRDsEvery) {
			return nil
		}
	}
}

// ofRoute returns what of a route is not in force for want of a field; nil while that is not known. What a report cannot
// carry is missing in the status of every route.
func (s *skews) ofRoute(route *storedRoute) *status.Skew {
	ours, known := s.of("llmroutes")
	reports, too := s.of("proxyreports")
	if !known || !too {
		return nil
	}
	dropped := slices.Clone(ours.missing)
	for _, field := range reports.missing {
		dropped = append(dropped, field+" of ProxyReports")
	}
	return &status.Skew{Dropped: dropped, Ignored: route.unknown}
}

// ofPin returns what of a pin is not in force for want of a field; nil while that is not known.
func (s *skews) ofPin(pin *storedPin) *status.Skew {
	ours, known := s.of("backendpins")
	if !known {
		return nil
	}
	return &status.Skew{Dropped: ours.missing, Ignored: pin.unknown}
}

func (s *skews) of(resource string) (found skew, known bool) {
	if all := s.found.Load(); all != nil {
		found, known = (*all)[resource]
	}
	return found, known
}

// compare reads all CRDs. One that cannot be read leaves what is known of it.
func (s *skews) compare(ctx context.Context) {
	was, is := map[string]skew{}, map[string]skew{}
	if known := s.found.Load(); known != nil {
		was = *known
	}
	maps.Copy(is, was)
	for _, resource := range slices.Sorted(maps.Keys(kindsNeeded)) {
		if found, ok := s.read(ctx, resource); ok {
			s.say(ctx, resource, is[resource], found)
			is[resource] = found
		}
	}
	if !reflect.DeepEqual(was, is) {
		s.found.Store(&is)
		s.changed()
	}
}

// read compares one CRD.
func (s *skews) read(ctx context.Context, resource string) (skew, bool) {
	log := logf.FromContext(ctx).WithName("crds")
	name := resource + "." + v1alpha1.Group
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	if err := s.reader.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
		log.Info("could not read a CustomResourceDefinition to compare it with this release", "crd", name, "cause", reasonOf(err))
		return skew{}, false
	}
	found, err := skewOf(crd.Object, kindsNeeded[resource])
	if err != nil {
		log.Error(err, "a CustomResourceDefinition has no readable schema", "crd", name)
		return skew{}, false
	}
	s.metrics.CRDSkew(name, len(found.missing), len(found.unknown))
	return found, true
}

// say tells a difference once.
func (s *skews) say(ctx context.Context, resource string, was, is skew) {
	log := logf.FromContext(ctx).WithName("crds").WithValues("crd", resource+"."+v1alpha1.Group)
	if len(is.missing) > 0 && !slices.Equal(was.missing, is.missing) {
		log.Error(nil, "A CUSTOMRESOURCEDEFINITION IS OLDER THAN THIS MANAGER: the API server drops these fields. Apply the CRDs of this release.",
			"fields", is.missing)
	}
	if len(is.unknown) > 0 && !slices.Equal(was.unknown, is.unknown) {
		log.Error(nil, "A CUSTOMRESOURCEDEFINITION IS NEWER THAN THIS MANAGER: what is set in these fields does nothing. Upgrade the manager.",
			"fields", is.unknown)
	}
}

// skewOf compares the schema of our version in a CRD with the type of this release.
func skewOf(crd map[string]any, kind reflect.Type) (skew, error) {
	path := jsonpath.New("schema")
	if err := path.Parse(fmt.Sprintf(`{.spec.versions[?(@.name==%q)].schema.openAPIV3Schema}`, v1alpha1.GroupVersion.Version)); err != nil {
		return skew{}, fmt.Errorf("parse the path to a schema: %w", err)
	}
	found, err := path.FindResults(crd)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return skew{}, fmt.Errorf("version %s is not in it", v1alpha1.GroupVersion.Version)
	}
	root, _ := found[0][0].Interface().(map[string]any)
	var s skew
	s.compare("", kind, root)
	slices.Sort(s.missing)
	slices.Sort(s.unknown)
	return s, nil
}

// compare walks a type and a schema side by side.
func (s *skew) compare(at string, kind reflect.Type, schema map[string]any) {
	kind, schema = element(kind, schema)
	if kind.Kind() != reflect.Struct || !strings.HasPrefix(kind.PkgPath(), reflect.TypeFor[v1alpha1.LLMRoute]().PkgPath()) {
		return // a scalar, or a type of Kubernetes, which does not change with us
	}
	properties, _ := schema["properties"].(map[string]any)
	fields := fieldsOf(kind)
	for name, of := range fields {
		path := strings.TrimPrefix(at+"."+name, ".")
		if property, served := properties[name].(map[string]any); served {
			s.compare(path, of, property)
		} else {
			s.missing = append(s.missing, path)
		}
	}
	for name := range properties {
		if _, known := fields[name]; !known && (at != "" || !slices.Contains(ofEveryObject, name)) {
			s.unknown = append(s.unknown, strings.TrimPrefix(at+"."+name, "."))
		}
	}
}

// ofEveryObject are the fields that Kubernetes knows itself.
var ofEveryObject = []string{"apiVersion", "kind", "metadata"}

// element returns what a type and its schema are a pointer to, or a list of.
func element(kind reflect.Type, schema map[string]any) (reflect.Type, map[string]any) {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		if kind.Kind() == reflect.Slice {
			schema, _ = schema["items"].(map[string]any)
		}
		kind = kind.Elem()
	}
	return kind, schema
}

// fieldsOf returns the types of the fields of a struct by their name in JSON.
func fieldsOf(kind reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" && name != "metadata" {
			fields[name] = kind.Field(i).Type
		}
	}
	return fields
}
