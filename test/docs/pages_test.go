package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// page is one Markdown file.
type page struct {
	path string // from the root of the repository, with slashes
	text string
}

// dir is the folder that the page's links start from.
func (p *page) dir() string { return filepath.Join(root, filepath.Dir(filepath.FromSlash(p.path))) }

// pages are all Markdown files of the repository: those of dependencies and of build output are not.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "bin") {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		short, err := filepath.Rel(root, path)
		all = append(all, page{path: filepath.ToSlash(short), text: string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no pages")
	}
	return all
}

// block is one fenced block of a page.
type block struct {
	line     int // of the opening fence
	language string
	text     string
}

var fence = regexp.MustCompile("^ *```([A-Za-z]*)")

// blocks returns the fenced blocks of a page, and the rest of it.
func (p *page) blocks() (fenced []block, prose string) {
	var rest strings.Builder
	var open *block
	for i, line := range strings.SplitAfter(p.text, "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case mark == nil && open == nil:
			rest.WriteString(line)
		case mark == nil:
			open.text += line
		case open == nil:
			open = &block{line: i + 1, language: mark[1]}
		default:
			fenced = append(fenced, *open)
			open = nil
		}
	}
	return fenced, rest.String()
}

func TestIndexListsEveryPage(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name, found := strings.CutPrefix(p.path, "docs/")
		if !found || name == "README.md" || strings.Contains(name, "/") {
			continue
		}
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// commandLine begins with one of the programs that pages call.
var commandLine = regexp.MustCompile(`^\s*(?:kubectl|helm|curl|make|docker|go|proxy|manager|bin/[a-z-]+) `)

// test/docs/commands runs what stands in blocks of sh and cron, and behind a prompt in those of console.
func TestNoCommandEscapesBeingRun(t *testing.T) {
	for _, p := range pages(t) {
		fenced, _ := p.blocks()
		for _, b := range fenced {
			if b.language == "sh" || b.language == "cron" || b.language == "go" {
				continue
			}
			for _, line := range strings.Split(b.text, "\n") {
				if commandLine.MatchString(line) {
					t.Errorf("%s:%d: a command in a block of %q, which is not run: %s", p.path, b.line, b.language, line)
				}
			}
		}
	}
}
