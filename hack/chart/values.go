package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one line of the table.
type value struct {
	key      string // path with dots
	standard string // as JSON
	says     string
}

// document turns the comments of values.yaml into Markdown: a heading for each section, a line for each value. A value without
// a comment is an error.
func document(text []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return "", fmt.Errorf("it holds no values")
	}
	var out strings.Builder
	top := doc.Content[0].Content
	for i := 0; i < len(top); i += 2 {
		name, says := top[i].Value, comment(top[i])
		values, err := leaves(name, top[i], top[i+1])
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "\n### `%s`\n\n", name)
		if !isLeaf(top[i+1]) {
			fmt.Fprintf(&out, "%s\n\n", says)
		}
		out.WriteString("| value | default | what it is |\n|---|---|---|\n")
		for _, v := range values {
			fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", v.key, v.standard, strings.ReplaceAll(v.says, "|", `\|`))
		}
	}
	out.WriteString("\n")
	return out.String(), nil
}

// leaves lists the values below a key, in the order of the file.
func leaves(path string, key, node *yaml.Node) ([]value, error) {
	says := comment(key)
	if says == "" {
		return nil, fmt.Errorf("line %d: %s has no comment above it", key.Line, path)
	}
	if isLeaf(node) {
		standard, err := asJSON(node)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", key.Line, path, err)
		}
		return []value{{key: path, standard: standard, says: says}}, nil
	}
	var all []value
	for i := 0; i < len(node.Content); i += 2 {
		below, err := leaves(path+"."+node.Content[i].Value, node.Content[i], node.Content[i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// isLeaf tells a value from a section: in a section, the first key has a comment of its own.
func isLeaf(node *yaml.Node) bool {
	return node.Kind != yaml.MappingNode || len(node.Content) == 0 || comment(node.Content[0]) == ""
}

// comment is what stands above a key, as one line. Of several paragraphs it is the last: the first may be about the file.
func comment(key *yaml.Node) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.Fields(strings.TrimPrefix(line, "#"))...)
	}
	return strings.Join(words, " ")
}

func asJSON(node *yaml.Node) (string, error) {
	var v any
	if err := node.Decode(&v); err != nil {
		return "", err
	}
	text, err := json.Marshal(v)
	return string(text), err
}
