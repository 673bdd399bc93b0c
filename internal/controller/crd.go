package controller

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// kindsNeeded are the resources that must be served before anything can be watched.
var kindsNeeded = map[string]reflect.Type{
	"llmroutes":    reflect.TypeFor[v1alpha1.LLMRoute](),
	"backendpins":  reflect.TypeFor[v1alpha1.BackendPin](),
	"proxyreports": reflect.TypeFor[v1alpha1.ProxyReport](),
}

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Waits for CRDs that are not there. We look often, because an installer may be at work, and say so seldom.
const (
	lookForCRDs  = time.Second
	sayCRDsEvery = 30 * time.Second
)

// waitForCRDs returns when all our kinds are served. Until then it says what is missing.
func waitForCRDs(ctx context.Context, d discovery.ServerResourcesInterface, log logr.Logger) error {
	var said time.Time
	for {
		missing, err := missingKinds(d)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if time.Since(said) >= sayCRDsEvery {
			said = time.Now()
			if err != nil {
				log.Info("waiting for the API server", "cause", reasonOf(err))
			} else {
				log.Info("waiting for CustomResourceDefinitions; install those of this release (config/crd)", "missing", missing)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookForCRDs):
		}
	}
}

func missingKinds(d discovery.ServerResourcesInterface) ([]string, error) {
	served, err := d.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var missing []string
	for resource := range kindsNeeded {
		is := func(r metav1.APIResource) bool { return r.Name == resource }
		if served == nil || !slices.ContainsFunc(served.APIResources, is) {
			missing = append(missing, resource+"."+v1alpha1.Group)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// checkCRDs compares the served CRDs with the fields of this binary and says loudly which are older: what such a CRD does
// not know is dropped by the API server, and nobody else would say so. It never stops the manager.
func checkCRDs(ctx context.Context, reader client.Reader, metrics Metrics, log logr.Logger) {
	for resource, kind := range kindsNeeded {
		name := resource + "." + v1alpha1.Group
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(crdKind)
		if err := reader.Get(ctx, types.NamespacedName{Name: name}, crd); err != nil {
			log.Info("could not read a CustomResourceDefinition to compare it with this release", "crd", name, "cause", reasonOf(err))
			continue
		}
		missing, err := missingFields(crd.Object, kind)
		if err == nil {
			metrics.CRDLacks(name, len(missing))
		}
		switch {
		case err != nil:
			log.Error(err, "a CustomResourceDefinition has no readable schema", "crd", name)
		case len(missing) > 0:
			log.Error(nil, "A CUSTOMRESOURCEDEFINITION IS OLDER THAN THIS MANAGER: the API server drops these fields. Apply the CRDs of this release.",
				"crd", name, "fields", missing)
		}
	}
}

// missingFields returns the paths of kind that the schema of our version in a CRD lacks, sorted.
func missingFields(crd map[string]any, kind reflect.Type) ([]string, error) {
	path := jsonpath.New("schema")
	if err := path.Parse(fmt.Sprintf(`{.spec.versions[?(@.name==%q)].schema.openAPIV3Schema}`, v1alpha1.GroupVersion.Version)); err != nil {
		return nil, fmt.Errorf("parse the path to a schema: %w", err)
	}
	found, err := path.FindResults(crd)
	if err != nil || len(found) == 0 || len(found[0]) == 0 {
		return nil, fmt.Errorf("version %s is not in it", v1alpha1.GroupVersion.Version)
	}
	root, _ := found[0][0].Interface().(map[string]any)
	var missing []string
	compareFields("", kind, root, &missing)
	slices.Sort(missing)
	return missing, nil
}

// compareFields walks a type and a schema side by side.
func compareFields(at string, kind reflect.Type, schema map[string]any, missing *[]string) {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		if kind.Kind() == reflect.Slice {
			schema, _ = schema["items"].(map[string]any)
		}
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || !strings.HasPrefix(kind.PkgPath(), reflect.TypeFor[v1alpha1.LLMRoute]().PkgPath()) {
		return // a scalar, or a type of Kubernetes, which does not change with us
	}
	properties, _ := schema["properties"].(map[string]any)
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" || name == "metadata" {
			continue
		}
		path := strings.TrimPrefix(at+"."+name, ".")
		property, served := properties[name].(map[string]any)
		if !served {
			*missing = append(*missing, path)
			continue
		}
		compareFields(path, kind.Field(i).Type, property, missing)
	}
}
