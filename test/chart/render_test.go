package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLint(t *testing.T) {
	h := newHelm(t, "")
	for _, values := range append(variants(t), "") {
		args := []string{"lint", "--strict", chartDir()}
		if values != "" {
			args = append(args, "--values", values)
		}
		h.run(t, args...)
	}
}

// variants are the files of values that have a golden file beside them.
func variants(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no variants in testdata (%v)", err)
	}
	return files
}

// TestGolden compares what is not copied from config/; for what is, see TestKustomize.
func TestGolden(t *testing.T) {
	h := newHelm(t, "")
	for _, values := range variants(t) {
		golden := strings.Replace(values, ".values.", ".golden.", 1)
		t.Run(filepath.Base(golden), func(t *testing.T) {
			got := withoutCopies(h.render(t, "--values", values))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the rendering differs from the golden file; if it is meant to, run this test with -update (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutCopies drops the objects whose templates hack/chart writes, and the long dashboard.
func withoutCopies(text string) string {
	documents := slices.DeleteFunc(strings.Split(text, "\n---\n"), func(document string) bool {
		return strings.Contains(document, "# Source: spillway/templates/generated/") || strings.Contains(document, "spillway.json: |-")
	})
	return strings.TrimPrefix(strings.Join(documents, "\n---\n"), "---\n")
}

func TestPolicyThatMutatesOnlyWhereItIsServed(t *testing.T) {
	h := newHelm(t, "")
	has := func(text string) bool { return strings.Contains(text, "\nkind: MutatingAdmissionPolicy\n") }
	if has(h.render(t, "--api-versions", "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy")) {
		t.Error("a cluster that does not serve MutatingAdmissionPolicy v1 gets one")
	}
	if !has(h.render(t, "--api-versions", mutating)) {
		t.Error("a cluster that serves MutatingAdmissionPolicy v1 gets none")
	}
}

func TestCRDsCanBeLeftOut(t *testing.T) {
	h := newHelm(t, "")
	count := func(text string) int { return strings.Count(text, "\nkind: CustomResourceDefinition\n") }
	if got := count(h.render(t)); got != 3 {
		t.Errorf("%d CRDs, want 3", got)
	}
	if got := count(h.render(t, "--set", "crds.install=false")); got != 0 {
		t.Errorf("%d CRDs with crds.install=false", got)
	}
}

// TestGracePeriod: the kubelet must not kill a proxy that still drains, however long that takes.
func TestGracePeriod(t *testing.T) {
	h := newHelm(t, "")
	text := h.render(t, "--set", "proxy.drain.timeoutSeconds=1200", "--show-only", "templates/proxy-deployment.yaml")
	for _, want := range []string{"terminationGracePeriodSeconds: 1230\n", "--drain-timeout=1200s\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestNamespacesThatYAMLReadsAsNumbers: a namespace may be called 2024 or on, and is a string all the same.
func TestNamespacesThatYAMLReadsAsNumbers(t *testing.T) {
	text := newHelm(t, "").render(t, "--namespace", "2024", "--set-string", "manager.watchNamespaces={2025,on}",
		"--set-string", "pinners[0].namespace=2026,pinners[0].subjects[0].kind=ServiceAccount,pinners[0].subjects[0].name=1",
		"--set", "proxy.callerAuth.mode=kubernetes")
	seen := map[string]bool{}
	for _, object := range objects(t, text) {
		walk(object.Object, func(key string, value any) {
			name, isString := value.(string)
			if key == "namespace" && !isString {
				t.Errorf("%s %s has the namespace %v, which is no string", object.GetKind(), object.GetName(), value)
			}
			seen[name] = true
		})
	}
	for _, want := range []string{"2024", "2025", "on", "2026"} {
		if !seen[want] {
			t.Errorf("no object is in the namespace %s", want)
		}
	}
}

// walk visits the fields of maps in maps and lists.
func walk(value any, visit func(key string, value any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			visit(key, field)
			walk(field, visit)
		}
	case []any:
		for _, item := range v {
			walk(item, visit)
		}
	}
}
