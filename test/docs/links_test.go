package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
)

func TestRelativeLinksLeadSomewhere(t *testing.T) {
	for _, p := range pages(t) {
		_, prose := p.blocks()
		for _, match := range link.FindAllStringSubmatch(prose, -1) {
			target := match[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, fragment, _ := strings.Cut(target, "#")
			to := filepath.Join(p.dir(), filepath.FromSlash(file))
			if file == "" {
				to = filepath.Join(root, filepath.FromSlash(p.path))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s leads nowhere", p.path, target)
				continue
			}
			if fragment != "" && !hasAnchor(t, to, fragment) {
				t.Errorf("%s: the link %s leads to a heading that is not there", p.path, target)
			}
		}
	}
}

func hasAnchor(t *testing.T, path, fragment string) bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchor(match[1]) == fragment {
			return true
		}
	}
	return false
}

// anchor is the fragment that GitHub makes of a heading.
func anchor(title string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(title)) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	return out.String()
}
