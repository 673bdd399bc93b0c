package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// crd is what the reference tells of a CustomResourceDefinition.
type crd struct {
	Spec struct {
		Names struct {
			Kind, Plural string
			ShortNames   []string
		}
		Versions []struct {
			AdditionalPrinterColumns []struct {
				Name     string
				Priority int
			}
			Schema struct{ OpenAPIV3Schema schema }
		}
	}
}

// schema is the part of an OpenAPI schema that CRDs use here.
type schema struct {
	Type, Format, Description, Pattern string
	Default                            any
	Enum                               []string
	Minimum, Maximum                   *int64
	MinLength, MaxLength               *int64
	MinItems, MaxItems                 *int64
	Required                           []string
	Items                              *schema
	Properties                         map[string]*schema
	AdditionalProperties               *schema
	Validations                        []struct{ Message string } `json:"x-kubernetes-validations"`
}

func readCRD(path string) (*crd, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &crd{}
	if err := yaml.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(c.Spec.Versions) != 1 {
		return nil, fmt.Errorf("%s: the reference knows how to describe one version, not %d", path, len(c.Spec.Versions))
	}
	return c, nil
}

func (c *crd) write(out *strings.Builder) {
	names, version := c.Spec.Names, c.Spec.Versions[0]
	root := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", names.Kind, oneLine(root.Description))
	fmt.Fprintf(out, "`kubectl get %s` (short: `%s`), namespaced. Columns: ", names.Plural, strings.Join(names.ShortNames, "`, `"))
	var columns, wide []string
	for _, column := range version.AdditionalPrinterColumns {
		if column.Priority == 0 {
			columns = append(columns, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
	}
	out.WriteString(strings.Join(columns, ", "))
	if len(wide) > 0 {
		fmt.Fprintf(out, "; with `-o wide` also %s", strings.Join(wide, ", "))
	}
	out.WriteString(".\n")
	for _, name := range []string{"spec", "status"} {
		writeObject(out, names.Kind, name, root.Properties[name])
	}
}

// writeObject writes the table of an object's fields, then those of the objects in it.
func writeObject(out *strings.Builder, kind, path string, s *schema) {
	fmt.Fprintf(out, "\n### %s %s\n\n%s\n\n| field | type | default | meaning |\n|---|---|---|---|\n", kind, path,
		sentences(s.Description, s.Validations))
	names := sortedNames(s.Properties)
	for _, name := range names {
		field := s.Properties[name]
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", name, field.typeName(), field.defaultText(slices.Contains(s.Required, name)), field.meaning())
	}
	for _, name := range names {
		field, inner := s.Properties[name], path+"."+name
		for field.Items != nil {
			field, inner = field.Items, inner+"[]"
		}
		if len(field.Properties) > 0 && name != "conditions" {
			writeObject(out, kind, inner, field)
		}
	}
}

// sortedNames are the fields of an object in the order of its table.
func sortedNames(properties map[string]*schema) []string {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
