package chart

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestKustomize compares the chart with kustomizations. They may differ in what the next functions name.
func TestKustomize(t *testing.T) {
	for name, tc := range map[string]struct {
		dir, set string
	}{
		"config/install and the defaults":        {dir: root("config", "install")},
		"callers with tokens of ServiceAccounts": {dir: filepath.Join("testdata", "caller-auth-kubernetes"), set: "proxy.callerAuth.mode=kubernetes"},
		"callers with keys":                      {dir: filepath.Join("testdata", "caller-auth-keys"), set: "proxy.callerAuth.mode=keys"},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, keyed(t, objects(t, kustomize(t, tc.dir))), keyed(t, objects(t, newHelm(t, "").render(t, "--api-versions", mutating, "--set", tc.set))))
		})
	}
}

func compare(t *testing.T, fromKustomize, fromChart map[string]*unstructured.Unstructured) {
	t.Helper()
	for _, key := range onlyKustomize {
		if fromKustomize[key] == nil {
			t.Errorf("kustomize lacks %s", key)
		}
		delete(fromKustomize, key)
	}
	if diff := cmp.Diff(sortedKeys(fromKustomize), sortedKeys(fromChart)); diff != "" {
		t.Fatalf("kustomize and the chart make different objects (-kustomize +chart):\n%s", diff)
	}
	for _, key := range sortedKeys(fromChart) {
		forgive(fromChart[key], fromKustomize[key])
		if diff := cmp.Diff(fromKustomize[key].Object, fromChart[key].Object); diff != "" {
			t.Errorf("%s differs (-kustomize +chart):\n%s", key, diff)
		}
	}
}

// onlyKustomize: Helm makes the namespace, if it is told to, and never owns it.
var onlyKustomize = []string{"Namespace " + namespace}

// forgive takes from an object of the chart what it may have more than its twin: Helm's labels, and the annotation that lets
// CRDs outlive the release.
func forgive(chart, kustomize *unstructured.Unstructured) {
	labels := chart.GetLabels()
	for _, name := range []string{
		"app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/version",
		"app.kubernetes.io/managed-by", "helm.sh/chart",
	} {
		if _, there := kustomize.GetLabels()[name]; !there {
			delete(labels, name)
		}
	}
	chart.SetLabels(orNil(labels))
	annotations := chart.GetAnnotations()
	delete(annotations, "helm.sh/resource-policy")
	chart.SetAnnotations(orNil(annotations))
}

// orNil makes an empty map vanish from the object.
func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

func kustomize(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command(kubectl(t), "kustomize", dir).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v", dir, err)
	}
	return string(out)
}

// kubectl is that of the control plane, or the one in PATH.
func kubectl(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal("no kubectl: run `make test-chart`, which builds one, or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver and kubectl")
	}
	return path
}

func sortedKeys(m map[string]*unstructured.Unstructured) []string { return slices.Sorted(maps.Keys(m)) }
