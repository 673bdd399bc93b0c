package controller

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// kindsNeeded are the resources that must be served before anything can be watched.
var kindsNeeded = map[string]reflect.Type{
	"llmroutes":    reflect.TypeFor[v1alpha1.LLMRoute](),
	"backendpins":  reflect.TypeFor[v1alpha1.BackendPin](),
	"proxyreports": reflect.TypeFor[v1alpha1.ProxyReport](),
}

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
