package law

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what "go list" says about one package.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	GoFiles    []string
	CgoFiles   []string
	Imports    []string
}

// listPackages returns every package of the module and everything it is built from, by import path.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	// The test cache notices the files that this process opens, not those that "go list" reads: source_test.go opens all
	// of ours, and this the versions of the others'.
	if _, err := os.ReadFile(filepath.Join(root(t), "go.sum")); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,CgoFiles,Imports", "./...")
	cmd.Dir, cmd.Stderr = root(t), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	packages := map[string]listed{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

// root is the directory of the main module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// expand turns a pattern of the rules into an import path.
func expand(pattern string) string {
	switch first, _, _ := strings.Cut(pattern, "/"); first {
	case "api", "cmd", "internal", "hack", "test":
		return module + "/" + pattern
	}
	return pattern
}

func matches(p listed, pattern string) bool {
	if pattern == std {
		return p.Standard
	}
	path := expand(pattern)
	return p.ImportPath == path || strings.HasPrefix(p.ImportPath, path+"/")
}

func matchesAny(p listed, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(p, pattern) })
}

// bound returns the import paths of the packages that patterns match, sorted.
func bound(packages map[string]listed, patterns []string) []string {
	var paths []string
	for path, p := range packages {
		if matchesAny(p, patterns) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// breaches returns one line for each package that breaks r, naming the imports that do.
func (r rule) breaches(packages map[string]listed) []string {
	var found []string
	for _, path := range bound(packages, r.packages) {
		if chain := chainTo(packages, path, r.forbids); chain != nil {
			found = append(found, strings.Join(short(chain), " -> "))
		}
		for _, imported := range packages[path].Imports {
			p := packages[imported]
			if matchesAny(p, r.avoids) || r.permits != nil && !matchesAny(p, r.permits) {
				found = append(found, strings.Join(short([]string{path, imported}), " -> "))
			}
		}
	}
	return found
}

// chainTo returns the shortest chain of imports from a package to one that patterns match, both included; nil for none.
func chainTo(packages map[string]listed, from string, patterns []string) []string {
	cameFrom := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at != from && matchesAny(packages[at], patterns) {
			var chain []string
			for ; at != ""; at = cameFrom[at] {
				chain = append(chain, at)
			}
			slices.Reverse(chain)
			return chain
		}
		for _, next := range packages[at].Imports {
			if _, seen := cameFrom[next]; !seen {
				cameFrom[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func short(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = strings.TrimPrefix(p, module+"/")
	}
	return out
}

func TestImports(t *testing.T) {
	packages := listPackages(t)
	for _, r := range rules {
		t.Run(r.sentence, func(t *testing.T) {
			for _, breach := range r.breaches(packages) {
				t.Errorf("the law says: %s\nbut: %s", r.sentence, breach)
			}
		})
	}
}

// Every package of the product is in the architecture, and every rule binds packages of the architecture.
func TestTheLawCoversThePackages(t *testing.T) {
	for _, path := range bound(listPackages(t), []string{"api", "cmd", "internal"}) {
		name := strings.TrimPrefix(path, module+"/")
		if !slices.ContainsFunc(architecture, func(known string) bool {
			return name == known || strings.HasPrefix(name, known+"/")
		}) {
			t.Errorf("%s is not in the architecture: add it to rules_test.go, with the rules that bind it", name)
		}
	}
	var named []string
	for _, r := range rules {
		named = append(named, r.packages...)
	}
	for _, name := range append(named, clockless...) {
		if !slices.ContainsFunc(architecture, func(known string) bool {
			return name == known || strings.HasPrefix(known, name+"/")
		}) {
			t.Errorf("a rule binds %s, which the architecture does not name", name)
		}
	}
}

// The law itself, on a small world: it must see what it forbids.
func TestRuleBreaches(t *testing.T) {
	world := map[string]listed{}
	for path, imports := range map[string][]string{
		module + "/internal/proxy":   {module + "/internal/openai", "fmt"},
		module + "/internal/openai":  {"example.com/helper"},
		"example.com/helper":         {"k8s.io/client-go/rest"},
		"k8s.io/client-go/rest":      {"fmt"},
		"k8s.io/client-gopher":       nil,
		module + "/internal/proxyed": {"k8s.io/client-go/rest"},
		"fmt":                        nil,
	} {
		world[path] = listed{ImportPath: path, Imports: imports, Standard: path == "fmt"}
	}
	tests := map[string]struct {
		rule rule
		want []string
	}{
		"a forbidden import through others is shown with its chain": {
			rule: rule{packages: []string{"internal/proxy"}, forbids: []string{"k8s.io/client-go"}},
			want: []string{"internal/proxy -> internal/openai -> example.com/helper -> k8s.io/client-go/rest"},
		},
		"a name that only begins alike is another package": {
			rule: rule{packages: []string{"internal/proxy"}, forbids: []string{"k8s.io/client-goph", "k8s.io/client"}},
		},
		"what is permitted is permitted": {
			rule: rule{packages: []string{"internal/proxy"}, permits: []string{std, "internal/openai"}},
		},
		"what is not permitted is a breach": {
			rule: rule{packages: []string{"internal/openai"}, permits: []string{std}},
			want: []string{"internal/openai -> example.com/helper"},
		},
		"what is avoided directly may come through others": {
			rule: rule{packages: []string{"internal/proxy"}, avoids: []string{"example.com/helper", "fmt"}},
			want: []string{"internal/proxy -> fmt"},
		},
		"a package that does not exist breaks nothing": {
			rule: rule{packages: []string{"internal/nowhere"}, permits: []string{std}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.rule.breaches(world); !slices.Equal(got, tc.want) {
				t.Errorf("breaches: got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPureCodeReadsNoClock(t *testing.T) {
	packages := listPackages(t)
	for _, path := range bound(packages, clockless) {
		p := packages[path]
		for _, name := range append(slices.Clone(p.GoFiles), p.CgoFiles...) {
			for _, reading := range clockReadings(t, filepath.Join(p.Dir, name), nil) {
				t.Errorf("the law says: %s takes the time as an argument\nbut: %s", short([]string{path})[0], reading)
			}
		}
	}
}

// clockReadings returns "file:line: time.F" for each use of a clock in a source file. src is as for parser.ParseFile.
func clockReadings(t *testing.T, file string, src any) []string {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	local := ""
	for _, spec := range parsed.Imports {
		if spec.Path.Value == `"time"` {
			local = "time"
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && local != "" && pkg.Name == local && slices.Contains(clockReaders, selector.Sel.Name) {
			at := set.Position(selector.Pos())
			found = append(found, fmt.Sprintf("%s:%d: time.%s", filepath.Base(at.Filename), at.Line, selector.Sel.Name))
		}
		return true
	})
	return found
}

func TestClockReadings(t *testing.T) {
	tests := map[string]struct {
		src  string
		want []string
	}{
		"a call":               {"package p\nimport \"time\"\nvar x = time.Now()", []string{"x.go:3: time.Now"}},
		"a value":              {"package p\nimport \"time\"\nvar now = time.Now", []string{"x.go:3: time.Now"}},
		"under another name":   {"package p\nimport clock \"time\"\nvar x = clock.Since", []string{"x.go:3: time.Since"}},
		"a type is no reading": {"package p\nimport \"time\"\nvar x time.Time", nil},
		"somebody else's Now":  {"package p\nimport \"x/time2\"\nvar x = time2.Now()", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := clockReadings(t, "x.go", tc.src); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
