package crd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// Schema is what a CRD says of its objects, apart from its rules in CEL: nothing that programs write has one.
type Schema struct {
	root      *spec.Schema
	validator *validate.SchemaValidator
}

// Read reads the schema of a resource, such as "llmroutes".
func Read(resource string) (*Schema, error) {
	_, here, _, _ := runtime.Caller(0)
	data, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../config/crd/spillway.dev_"+resource+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("read a CRD: %w", err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema *spec.Schema }
			}
		}
	}
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, fmt.Errorf("read the CRD of %s: %w", resource, err)
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	return &Schema{root: root, validator: validate.NewSchemaValidator(root, nil, "", strfmt.Default)}, nil
}

// Faults returns what an API server would have against an object; nothing where it takes it.
func (s *Schema) Faults(object any) ([]string, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write an object: %w", err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	var faults []string
	for _, err := range s.validator.Validate(plain).Errors {
		faults = append(faults, err.Error())
	}
	return append(faults, twice("", s.root, plain)...), nil
}

// twice returns the elements of lists that are there twice where the schema wants each once.
func twice(at string, s *spec.Schema, value any) (faults []string) {
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if property, known := s.Properties[name]; known {
				faults = append(faults, twice(at+"."+name, &property, below)...)
			}
		}
	case []any:
		seen := map[string]bool{}
		for _, element := range v {
			key, unique := keyOf(s, element)
			if seen[key] && unique {
				faults = append(faults, fmt.Sprintf("%s has %.80s twice", at, key))
			}
			seen[key] = true
			if s.Items != nil && s.Items.Schema != nil {
				faults = append(faults, twice(at+"[]", s.Items.Schema, element)...)
			}
		}
	}
	return faults
}

// keyOf returns what tells an element of a list from the others, and whether the schema wants that once.
func keyOf(list *spec.Schema, element any) (key string, unique bool) {
	kind, _ := list.Extensions.GetString("x-kubernetes-list-type")
	names, isMap := list.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	object, isObject := element.(map[string]any)
	if !isMap || !isObject {
		return fmt.Sprint(element), kind == "set"
	}
	for _, name := range names {
		key += fmt.Sprintf("%v;", object[name])
	}
	return key, true
}
