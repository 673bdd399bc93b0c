package compiler

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// schemaBase is the valid object that a case of the schema's suite changes.
var schemaBase = map[string]string{
	"llmroute": `
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: case, namespace: a, creationTimestamp: "2026-08-13T19:00:00Z"}
spec: {chain: [{name: tower, url: "http://tower.lan:11434/v1"}]}`,
	"backendpin": `
apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {name: case, namespace: a, creationTimestamp: "2036-08-13T19:00:00Z"}
spec: {routes: {names: [default]}, backend: hosted, mode: Prefer, duration: 4h}`,
}

// schemaCase is what a case of the schema's suite changes; see test/api.
type schemaCase struct {
	Spec    map[string]any `json:"spec"`
	Backend map[string]any `json:"backend"`
	Then    map[string]any `json:"then"`
}

// readAsAbsent are cases whose 0 or "" is the Go zero value: read back it is an absent field, and the default is in force.
var readAsAbsent = map[string]bool{
	"rate-limit-burst: no burst": true, "threshold: zero failures": true, "required: a header without a value": true,
	"empty: a model": true, "empty: a physical model": true, "empty: a regime": true, "empty: a capacity group": true, "empty: a server name": true,
}

// schemaOnly are cases of bounds that keep the cost of a rule down and mean nothing to a compile.
var schemaOnly = map[string]bool{
	"selector-length: seventeen labels": true, "selector-length: seventeen requirements": true, "selector-length: seventeen values": true,
	"text-length: a route of 254": true, "empty: a route": true,
}

// otherTypes is the file of cases that this test's own decoder makes texts of.
const otherTypes = "text-type.yaml"

// TestCompilerAgreesWithTheSchema runs the cases of the schema's own suite: files never meet a schema, and stored objects
// may be older than it, so what the schema refuses the compiler must refuse too, and nothing else.
func TestCompilerAgreesWithTheSchema(t *testing.T) {
	for kind := range schemaBase {
		files, err := filepath.Glob(filepath.Join("../../test/api/testdata", kind, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases for %s: %v", kind, err)
		}
		for _, file := range files {
			if filepath.Base(file) == otherTypes {
				continue
			}
			var rule struct{ Accepts, Refuses map[string]schemaCase }
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(data, &rule); err != nil {
				t.Fatal(err)
			}
			for name, tc := range rule.Accepts {
				checkSchemaCase(t, kind, file+": accepts "+name, tc, true)
			}
			for name, tc := range rule.Refuses {
				if rule := strings.TrimSuffix(filepath.Base(file), ".yaml") + ": " + name; readAsAbsent[rule] || schemaOnly[rule] {
					continue
				}
				checkSchemaCase(t, kind, file+": refuses "+name, tc, false)
			}
		}
	}
}

func checkSchemaCase(t *testing.T, kind, name string, tc schemaCase, wantAccepted bool) {
	t.Helper()
	if tc.Then != nil {
		return // what may change is the API server's affair
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(schemaBase[kind]), &object); err != nil {
		t.Fatal(err)
	}
	mergePatch(object, map[string]any{"spec": tc.Spec})
	if tc.Backend != nil {
		mergePatch(object["spec"].(map[string]any)["chain"].([]any)[0].(map[string]any), tc.Backend)
	}
	doc, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	s := emptySnapshot()
	if err := s.addDocument(doc); err != nil {
		if wantAccepted {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	var problems []Problem
	r := Compile(s.Snapshot, goldenNow)
	for _, v := range r.Routes {
		if wantAccepted { // nothing that a case refers to is there
			problems = append(problems, v.ProblemsOf(v1alpha1.ConditionAccepted)...)
		} else {
			problems = append(problems, v.Problems...)
		}
	}
	for _, v := range r.Pins {
		problems = append(problems, v.Problems...)
	}
	if (len(problems) == 0) != wantAccepted {
		t.Errorf("%s: problems %v, want accepted = %v", name, problems, wantAccepted)
	}
}

// mergePatch is a JSON merge patch, in place.
func mergePatch(into, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		there, wasMap := into[key].(map[string]any)
		switch {
		case isMap && below == nil: // a part that the case leaves alone
		case isMap && wasMap:
			mergePatch(there, below)
		case value == nil:
			delete(into, key)
		default:
			into[key] = value
		}
	}
}
