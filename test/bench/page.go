package main

import (
	"fmt"
	"os"
	"strings"
)

// replaceSection puts text between the marks that name a section of a file, and leaves the rest as it is.
func replaceSection(path, name, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no section between %q and %q", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+"\n"+end+after), 0o644)
}
