package controller

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

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
