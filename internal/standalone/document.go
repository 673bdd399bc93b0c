package standalone

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Message is something that the author of a manifest should know.
type Message struct {
	File string `json:"file"`           // name within the folder
	Line int    `json:"line,omitempty"` // 1 is the first; 0 where it is the whole file
	Text string `json:"message"`        // a sentence without values of the manifest, which could be secret
	// Foreign says that it is of a document of a kind that is none of ours: no mistake, where the file is for a cluster.
	Foreign bool `json:"-"`
}

func (m Message) String() string {
	if m.Line == 0 {
		return m.File + ": " + m.Text
	}
	return fmt.Sprintf("%s:%d: %s", m.File, m.Line, m.Text)
}

// document is one YAML document of a file.
type document struct {
	line int // of the file, where the text begins; the separator belongs to it
	text []byte
}

// split cuts a file into its documents at the lines that begin with "---". A damaged document does not hide the next.
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var docs []document
	begin, beginLine, line, at := 0, 1, 1, 0
	cut := func(end int) {
		if len(bytes.TrimSpace(data[begin:end])) > 0 {
			docs = append(docs, document{line: beginLine, text: data[begin:end]})
		}
		begin, beginLine = end, line
	}
	for rest := range bytes.Lines(data) {
		if at > 0 && isSeparator(rest) {
			cut(at)
		}
		at += len(rest)
		line++
	}
	cut(len(data))
	return docs
}

func isSeparator(line []byte) bool {
	after, found := bytes.CutPrefix(line, []byte("---"))
	return found && (len(after) == 0 || strings.ContainsRune(" \t\r\n", rune(after[0])))
}

// parse returns the document as JSON and as nodes that know their lines. Both are empty where there is nothing in it.
// Lines count from the document's own first line, also that of a problem.
func (d document) parse() (json []byte, root *yamlnode.Node, problem *Message) {
	var parsed yamlnode.Node
	if err := yamlnode.Unmarshal(d.text, &parsed); err != nil {
		return nil, nil, d.syntaxError(err)
	}
	if parsed.Kind == 0 || len(parsed.Content) == 0 || parsed.Content[0].Tag == "!!null" {
		return nil, nil, nil
	}
	root = parsed.Content[0]
	if root.Kind != yamlnode.MappingNode {
		return nil, nil, &Message{Line: root.Line, Text: "The document is not an object with apiVersion and kind."}
	}
	json, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, nil, d.syntaxError(err)
	}
	return json, root, nil
}

var lineInError = regexp.MustCompile(`line (\d+)`)

// syntaxError says where the YAML is wrong. What the parser quotes is left out: it could be part of a secret.
func (d document) syntaxError(err error) *Message {
	m := &Message{Line: 1, Text: "The document is not valid YAML near this line; it is ignored."}
	if found := lineInError.FindStringSubmatch(err.Error()); found != nil {
		if line, convErr := strconv.Atoi(found[1]); convErr == nil {
			m.Line = line
		}
	}
	if strings.Contains(err.Error(), "already set in map") {
		m.Text = "A key is set twice in one object; the document is ignored."
	}
	return m
}

// lineOf returns the line of a field, such as "spec.chain[1].url". A path without indexes stands for any element; where
// that is not one place, or the field is not there, the line is the object's own.
func lineOf(root *yamlnode.Node, path string) int {
	nodes := []*yamlnode.Node{root}
	line := root.Line
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var next []*yamlnode.Node
		lines := map[int]bool{}
		for _, n := range nodes {
			next = append(next, children(n, step, lines)...)
		}
		if len(next) == 0 {
			break
		}
		nodes = next
		if len(lines) == 1 {
			for l := range lines {
				line = l
			}
		}
	}
	if len(nodes) != 1 {
		return root.Line
	}
	return line
}

// children returns what a step of a path leads to, and notes the lines of the keys.
func children(n *yamlnode.Node, step string, lines map[int]bool) []*yamlnode.Node {
	switch n.Kind {
	case yamlnode.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				lines[n.Content[i].Line] = true
				return []*yamlnode.Node{n.Content[i+1]}
			}
		}
	case yamlnode.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil {
			if i < 0 || i >= len(n.Content) {
				return nil
			}
			lines[n.Content[i].Line] = true
			return n.Content[i : i+1]
		}
		var all []*yamlnode.Node
		for _, element := range n.Content {
			all = append(all, children(element, step, lines)...)
		}
		return all
	}
	return nil
}
