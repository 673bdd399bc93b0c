package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Go in the pages is taken from examples that the tests of api/stream run.
func TestGoIsAnExcerptOfARunningExample(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(root, "api", "stream", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	source := flush(string(example))
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/") || strings.HasPrefix(p.path, "docs/adr/") {
			continue
		}
		fenced, _ := p.blocks()
		for _, b := range fenced {
			if b.language == "go" && !strings.Contains(source, flush(b.text)) {
				t.Errorf("%s:%d: the block is not in api/stream/example_test.go as it stands", p.path, b.line)
			}
		}
	}
}

// flush takes the indentation away.
func flush(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
