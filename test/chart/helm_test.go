package chart

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	release   = "spillway"
	namespace = "spillway-system"
	// mutating is what a cluster of 1.36 or later serves; helm template alone assumes less.
	mutating = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
)

func root(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

func chartDir() string { return root("charts", "spillway") }

// helmBinary is $HELM, as make sets it, or is built, which takes minutes once.
var helmBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("HELM"); path != "" {
		return path, nil
	}
	build := exec.Command(root("hack", "tools", "tool.sh"), "helm")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build helm: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// helmer runs Helm with folders of its own.
type helmer struct {
	dir        string
	kubeconfig string // empty: no cluster
}

func newHelm(t *testing.T, kubeconfig string) *helmer {
	t.Helper()
	return &helmer{dir: t.TempDir(), kubeconfig: kubeconfig}
}

// try returns what Helm writes to stdout, and as an error what it writes to stderr.
func (h *helmer) try(ctx context.Context, args ...string) (string, error) {
	path, err := helmBinary()
	if err != nil {
		return "", err
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+h.dir, "HELM_CONFIG_HOME="+h.dir, "HELM_DATA_HOME="+h.dir, "KUBECONFIG="+h.kubeconfig)
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, said.String())
	}
	return out.String(), nil
}

func (h *helmer) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// render returns what the chart makes with more flags of helm template.
func (h *helmer) render(t *testing.T, flags ...string) string {
	t.Helper()
	return h.run(t, append([]string{"template", release, chartDir(), "--namespace", namespace}, flags...)...)
}

// objects decodes YAML documents.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// keyed returns the objects by kind, namespace and name. Two of one key are an error.
func keyed(t *testing.T, all []*unstructured.Unstructured) map[string]*unstructured.Unstructured {
	t.Helper()
	byKey := make(map[string]*unstructured.Unstructured, len(all))
	for _, object := range all {
		key := keyOf(object)
		if byKey[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		byKey[key] = object
	}
	return byKey
}

func keyOf(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
