package page

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSectionIsReplacedAndTheRestKept(t *testing.T) {
	const page = "# Title\n<!-- begin x -->\nold\n<!-- end x -->\ntail\n"
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceSection(path, "x", "new"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("# Title\n<!-- begin x -->\n\nnew\n<!-- end x -->\ntail\n", string(got)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	if err := ReplaceSection(path, "y", "new"); err == nil {
		t.Error("a section that is not there was replaced")
	}
}

// A benchmark that runs for minutes is to find its section at the end.
func TestThePageHasASectionOfEachBenchmark(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"make bench", "make bench-control"} {
		if err := ReplaceSection(path, name, "new"); err != nil {
			t.Error(err)
		}
	}
}
