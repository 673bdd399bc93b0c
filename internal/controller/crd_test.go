package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// served is a discovery client that knows what is served; each asking takes the next answer, the last one stays.
type served struct {
	discovery.ServerResourcesInterface
	answers []answer
}

type answer struct {
	resources []string
	err       error
}

func (s *served) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	a := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	list := &metav1.APIResourceList{}
	for _, name := range a.resources {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, a.err
}

func TestTheManagerWaitsForItsCRDsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []string{"llmroutes", "llmroutes/status", "backendpins", "proxyreports"}
		notFound := apierrors.NewNotFound(schema.GroupResource{}, "spillway.dev")
		s := &served{answers: []answer{{nil, errors.New("connection refused")}, {nil, notFound}, {all[:2], nil}, {all, nil}}}
		var said []string
		log := funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{})
		start := time.Now()
		if err := waitForCRDs(t.Context(), s, log); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*lookForCRDs || len(said) != 1 || !strings.Contains(said[0], "waiting for the API server") {
			t.Errorf("after %s it had said %q", took, said)
		}

		s.answers, said = []answer{{all[:2], nil}}, nil
		ctx, cancel := context.WithTimeout(t.Context(), sayCRDsEvery+time.Second)
		defer cancel()
		if err := waitForCRDs(ctx, s, log); err == nil {
			t.Error("it goes on without CRDs")
		}
		if want := `"missing"=["backendpins.spillway.dev" "proxyreports.spillway.dev"]`; len(said) != 2 || !strings.Contains(said[1], want) {
			t.Errorf("it said %q, want twice %s", said, want)
		}
	})
}

func crd(t *testing.T, resource string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", v1alpha1.Group+"_"+resource+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestCRDsOfThisReleaseLackNothing(t *testing.T) {
	for resource, kind := range kindsNeeded {
		missing, err := missingFields(crd(t, resource), kind)
		if err != nil || len(missing) > 0 {
			t.Errorf("%s: missing %v, error %v", resource, missing, err)
		}
	}
}

func TestAnOldCRDIsToldByField(t *testing.T) {
	old := crd(t, "llmroutes")
	version := old["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	for _, path := range [][]string{{"spec", "properties", "queue"}, {"spec", "properties", "chain", "items", "properties", "capacityGroup"}} {
		unstructured.RemoveNestedField(version, append([]string{"schema", "openAPIV3Schema", "properties"}, path...)...)
	}
	missing, err := missingFields(old, kindsNeeded["llmroutes"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"spec.chain.capacityGroup", "spec.queue"}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	version["name"] = "v1alpha0"
	if _, err := missingFields(old, kindsNeeded["llmroutes"]); err == nil {
		t.Error("a CRD without our version must be an error")
	}
}
