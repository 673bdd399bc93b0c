package law

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// eachSource calls visit with every Go file of the repository, nested modules included, by its path in it.
func eachSource(t *testing.T, visit func(name string, source []byte)) {
	t.Helper()
	dir, seen := root(t), 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		seen++
		visit(filepath.ToSlash(name), source)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatalf("no Go files below %s", dir)
	}
}

// Who opens the repository finds each package on the map, with its place in the flow of the data.
func TestTheMapNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range architecture {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("CONTRIBUTING.md does not say what %s is for: add it to the table of packages", name)
		}
	}
}

func TestFilesAreShort(t *testing.T) {
	eachSource(t, func(name string, source []byte) {
		n := bytes.Count(source, []byte("\n"))
		if n > maxLines && !strings.HasSuffix(name, "_test.go") && !generated.Match(source) {
			t.Errorf("%s has %d lines, at most %d are allowed: find the second thing that it does", name, n, maxLines)
		}
	})
}

// A test that sleeps is slow on a fast machine and wrong on a slow one. In a bubble of testing/synctest time costs nothing.
func TestTestsDoNotSleep(t *testing.T) {
	eachSource(t, func(name string, source []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"testing/synctest"` {
				return
			}
		}
		for _, reading := range clockReadings(t, name, source) {
			if strings.HasSuffix(reading, "time.Sleep") {
				t.Errorf("%s: wait for the event, or use testing/synctest", reading)
			}
		}
	})
}
