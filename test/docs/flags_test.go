package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

var (
	declared = regexp.MustCompile(`(?m)^  -{1,2}([a-z][a-z-]*)`)
	flagWord = regexp.MustCompile(`(?:^|[\s"'\[,])--([a-z][a-z-]*)`)
	codeSpan = regexp.MustCompile("`(--[^`]+)`")
	// runs is a command line, or a part of one, that begins with one of the two programs.
	runs = regexp.MustCompile(`(?:^|[\s/])(proxy|manager)\s+(--.*)$`)
	// argument is a flag in a list of arguments of a container.
	argument = regexp.MustCompile(`^\s*(?:- |command: \[|args: \[|extraArgs: \[)["']?--`)
)

// flagsOf asks the program itself.
func flagsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	out, _ := exec.Command(program(t, name), "--help").CombinedOutput() // help is an exit code of its own in one of them
	flags := map[string]bool{}
	for _, match := range declared.FindAllStringSubmatch(string(out), -1) {
		flags[match[1]] = true
	}
	if len(flags) == 0 {
		t.Fatalf("%s --help says nothing of flags: %s", name, out)
	}
	return flags
}

// foreign are the pages whose code spans of flags alone are another program's.
var foreign = map[string]bool{
	"docs/kubectl-spillway.md":                         true, // the plugin's own flags
	"charts/spillway/README.md":                        true, // helm's
	"hack/localkube/README.md":                         true, // its own
	"docs/adr/0001-control-plane-from-go-modules.md":   true, // go's
	"docs/adr/0004-crds-are-templates-of-the-chart.md": true, // helm's
}

func TestFlagsExist(t *testing.T) {
	flags := map[string]map[string]bool{"proxy": flagsOf(t, "proxy"), "manager": flagsOf(t, "manager")}
	either := map[string]bool{}
	for _, of := range flags {
		for name := range of {
			either[name] = true
		}
	}
	for _, p := range pages(t) {
		fenced, prose := p.blocks()
		for _, b := range fenced {
			for _, line := range strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
				if match := runs.FindStringSubmatch(line); match != nil {
					check(t, p.path, match[1], match[2], flags[match[1]])
				} else if argument.MatchString(line) {
					check(t, p.path, "neither program", line, either)
				}
			}
		}
		if foreign[p.path] {
			continue
		}
		for _, match := range codeSpan.FindAllStringSubmatch(prose, -1) {
			check(t, p.path, "neither program", match[1], either)
		}
	}
}

func check(t *testing.T, path, program, text string, exists map[string]bool) {
	t.Helper()
	for _, match := range flagWord.FindAllStringSubmatch(text, -1) {
		if !exists[match[1]] {
			t.Errorf("%s: %s has no flag --%s", path, program, match[1])
		}
	}
}
