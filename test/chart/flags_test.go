package chart

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestProgramsTakeTheirFlags gives each program the flags that the chart gives it. With --version it reads them all and ends.
func TestProgramsTakeTheirFlags(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, root("cmd", "manager"), root("cmd", "proxy")).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	h := newHelm(t, "")
	for _, values := range variants(t) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			deployments := 0
			for _, object := range objects(t, h.render(t, "--values", values)) {
				if object.GetKind() == "Deployment" {
					deployments++
					checkFlags(t, dir, podOf(t, object).Spec.Containers[0])
				}
			}
			if deployments != 2 {
				t.Errorf("%d Deployments, want 2", deployments)
			}
		})
	}
}

// podOf returns the Pod that a Deployment describes.
func podOf(t *testing.T, deployment *unstructured.Unstructured) *corev1.Pod {
	t.Helper()
	template, _, err := unstructured.NestedMap(deployment.Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Spec.Containers) != 1 {
		t.Fatalf("%d containers, want 1", len(pod.Spec.Containers))
	}
	return pod
}

func checkFlags(t *testing.T, dir string, container corev1.Container) {
	t.Helper()
	var args []string
	for _, arg := range container.Args {
		for _, env := range container.Env {
			arg = strings.ReplaceAll(arg, fmt.Sprintf("$(%s)", env.Name), "value-of-"+strings.ToLower(strings.ReplaceAll(env.Name, "_", "-")))
		}
		args = append(args, arg)
	}
	// A container is named after its program.
	if out, err := exec.Command(filepath.Join(dir, container.Name), append(args, "--version")...).CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", container.Name, args, err, out)
	}
}
