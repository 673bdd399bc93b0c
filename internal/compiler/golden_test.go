package compiler

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

var update = flag.Bool("update", false, "write testdata/*.out.yaml from what Compile returns")

// goldenNow is the time of every golden case.
var goldenNow = time.Date(2026, 8, 13, 20, 0, 0, 0, time.UTC)

// TestGolden compiles testdata/NAME.in.yaml, real manifests, and compares the table and the verdicts with
// testdata/NAME.out.yaml. A case whose name begins with "standalone" is compiled as files are.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			s := readSnapshot(t, input)
			s.Options.Standalone = strings.HasPrefix(name, "standalone")
			r := Compile(s, goldenNow)
			got, err := yaml.Marshal(map[string]any{
				"table":  printable(reflect.ValueOf(r.Table().Routes())),
				"routes": printable(reflect.ValueOf(r.SortedRoutes())),
				"pins":   printable(reflect.ValueOf(r.SortedPins())),
			})
			if err != nil {
				t.Fatal(err)
			}
			checkNoSecrets(t, s, got)
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s (-want +got); run with -update where the change is meant:\n%s", golden, diff)
			}
		})
	}
}

// checkNoSecrets holds every verdict against every Secret of the case.
func checkNoSecrets(t *testing.T, s Snapshot, out []byte) {
	t.Helper()
	for key, secret := range s.Secrets {
		for name, value := range secret.Data {
			if v := bytes.TrimSpace(value); len(v) > 3 && bytes.Contains(out, v) {
				t.Errorf("the output holds the value of key %s of Secret %s", name, key)
			}
		}
	}
}

func readSnapshot(t testing.TB, path string) Snapshot {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := emptySnapshot()
	for i, doc := range bytes.Split(data, []byte("\n---\n")) {
		if err := s.addDocument(doc); err != nil {
			t.Fatalf("document %d of %s: %v", i+1, path, err)
		}
	}
	return s.Snapshot
}

// testSnapshot is a Snapshot that objects can be added to.
type testSnapshot struct{ Snapshot }

func emptySnapshot() testSnapshot {
	return testSnapshot{Snapshot{
		Secrets:    map[types.NamespacedName]*corev1.Secret{},
		ConfigMaps: map[types.NamespacedName]*corev1.ConfigMap{},
		Services:   map[types.NamespacedName]*corev1.Service{},
		Salt:       []byte("salt of the tests"),
	}}
}

func (s *testSnapshot) addDocument(doc []byte) error {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return err
	}
	objects := map[string]metav1.Object{
		"LLMRoute": &v1alpha1.LLMRoute{}, "BackendPin": &v1alpha1.BackendPin{}, "Secret": &corev1.Secret{},
		"ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{},
	}
	object := objects[meta.Kind]
	if object == nil {
		return fmt.Errorf("kind %q is not one of the tests", meta.Kind)
	}
	if err := yaml.UnmarshalStrict(doc, object); err != nil {
		return err
	}
	s.add(object)
	return nil
}

func (s *testSnapshot) add(object metav1.Object) {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	switch o := object.(type) {
	case *v1alpha1.LLMRoute:
		s.Routes = append(s.Routes, o)
	case *v1alpha1.BackendPin:
		s.Pins = append(s.Pins, o)
	case *corev1.Secret:
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		for k, v := range o.StringData { // as the API server does
			o.Data[k] = []byte(v)
		}
		s.Secrets[key] = o
	case *corev1.ConfigMap:
		s.ConfigMaps[key] = o
	case *corev1.Service:
		s.Services[key] = o
	}
}

// printable turns a value into what a person can read as YAML: zero fields left out, durations and times as text,
// credentials as their kind and length, and the problems of a backend once, at its route.
func printable(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case time.Time:
		return x.Format(time.RFC3339)
	case types.NamespacedName:
		return x.String()
	case table.Credential:
		scheme, value, found := strings.Cut(x.Value, " ")
		if !found {
			scheme, value = "", x.Value
		}
		return fmt.Sprintf("%s: %s <%d bytes>", x.Header, scheme, len(value))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return printable(v.Elem())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = printable(v.Index(i))
		}
		return list
	case reflect.Struct:
		return printableStruct(v)
	case reflect.String:
		if strings.HasPrefix(v.String(), "-----BEGIN") {
			return fmt.Sprintf("<PEM, %d blocks>", strings.Count(v.String(), "-----BEGIN"))
		}
		return v.String()
	}
	return v.Interface()
}

func printableStruct(v reflect.Value) map[string]any {
	fields := map[string]any{}
	for i := range v.NumField() {
		if v.Type() == reflect.TypeFor[BackendVerdict]() && v.Type().Field(i).Name == "Problems" {
			continue
		}
		if !v.Field(i).IsZero() {
			name := v.Type().Field(i).Name
			if name != strings.ToUpper(name) { // not ID, TLS, CA
				name = strings.ToLower(name[:1]) + name[1:]
			}
			fields[name] = printable(v.Field(i))
		}
	}
	return fields
}
