package commands

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/test/stack"
)

// patience bounds one block; nothing is measured by it.
const patience = 3 * time.Minute

// order is that of a newcomer. The pages build on each other: pins that one makes are ended by the next.
var order = []string{
	"README.md", "docs/install.md", "charts/spillway/README.md", "docs/first-route.md", "docs/kubectl-spillway.md", "docs/game-night.md",
	"docs/pins-and-rbac.md", "docs/operations.md", "docs/troubleshooting.md", "docs/callers-auth.md", "docs/standalone.md",
}

func TestCommandsOfThePages(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	root, err := stack.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(ctx, stack.Options{
		Root: root, Dir: t.TempDir(), Backends: map[string]string{"tower": "127.0.0.1:0", "hosted": "127.0.0.1:0"}, Tokens: 4,
		Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	d := newDesk(t, s)
	if err := s.ApplyRoute(ctx, d.route); err != nil {
		t.Fatal(err)
	}
	for _, page := range order {
		d.runPage(ctx, t, page)
	}
}

func TestEveryPageWithCommandsIsRun(t *testing.T) {
	known := map[string]bool{}
	for _, page := range order {
		known[page] = true
	}
	for _, pattern := range []string{"*.md", "docs/*.md", "charts/spillway/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", "..", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			page, _ := filepath.Rel(filepath.Join("..", "..", ".."), path)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(scripts(string(text))) > 0 && !known[filepath.ToSlash(page)] {
				t.Errorf("%s has commands, but is not in the order of pages", page)
			}
		}
	}
}

// desk is where the reader of the pages sits: a folder that looks like the clone, and a shell.
type desk struct {
	stack *stack.Stack
	dir   string
	route string // the manifest of the first route, with backends that exist
	env   []string
	here  *strings.Replacer
}

func newDesk(t *testing.T, s *stack.Stack) *desk {
	t.Helper()
	d := &desk{stack: s, dir: t.TempDir(), route: s.FirstRoute("threshold: 2, slowAfter: 1s, cooldown: 10s, coldStartGrace: 5s")}
	for _, name := range []string{"bin", "charts", "config", "docs"} {
		if err := os.Symlink(filepath.Join(s.Root, name), filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.dir, "route.yaml"), []byte(d.route), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(s.Admin().Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(d.dir, "kubeconfig")
	if err := os.WriteFile(own, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	path := []string{filepath.Join(s.Root, "bin"), filepath.Dir(s.KubectlPath()), filepath.Dir(os.Getenv("HELM")), os.Getenv("PATH")}
	d.env = append(os.Environ(), "KUBECONFIG="+own, "HOME="+d.dir, "API_KEY=replace-me", "PATH="+strings.Join(path, ":"))
	d.here = strings.NewReplacer(
		"127.0.0.1:8080", s.Proxies[0].Data, "127.0.0.1:8081", s.Proxies[0].Data, "127.0.0.1:8082", s.Proxies[1].Data,
		"/usr/local/bin", filepath.Join(d.dir, "local"), "127.0.0.1:9101", s.Backends["tower"].Addr, "127.0.0.1:9102", s.Backends["hosted"].Addr)
	if out, err := d.shell(t.Context(), "kubectl config set-context --current --namespace=sirens-echo"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// shell runs a script and returns all that it says.
func (d *desk) shell(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir, cmd.Env = d.dir, d.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// assignment is a command that later blocks of the page need.
var assignment = regexp.MustCompile(`^[a-z]+='`)

func (d *desk) runPage(ctx context.Context, t *testing.T, page string) {
	text, err := os.ReadFile(filepath.Join(d.stack.Root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	var before []string
	for _, s := range scripts(string(text)) {
		t.Run(fmt.Sprintf("%s:%d", page, s.line), func(t *testing.T) {
			lines := append([]string{}, before...)
			for _, command := range s.commands {
				run, why := instead(command)
				if why != "" {
					t.Logf("not run as it is (it %s): %s", why, command)
				}
				if assignment.MatchString(command) {
					before = append(before, command)
				}
				lines = append(lines, d.here.Replace(run))
			}
			if isProgram(s.commands) {
				d.save(t, s.commands)
				lines = append([]string{"set -- on", "unset KUBECONFIG"}, lines...)
			}
			if out, err := d.shell(ctx, strings.Join(lines, "\n")); err != nil {
				t.Errorf("%v; it says:\n%s\nit is:\n%s", err, out, strings.Join(lines, "\n"))
			}
		})
	}
}

// argument is the first one of a script that takes some.
var argument = regexp.MustCompile(`\$\{?1\b`)

// programName stands in what a program says of its usage.
var programName = regexp.MustCompile(`usage: ([a-z-]+) `)

// save puts a program of a page where the page says that it is, below the desk.
func (d *desk) save(t *testing.T, commands []string) {
	t.Helper()
	text := strings.Join(commands, "\n")
	name := programName.FindStringSubmatch(text)
	if name == nil {
		t.Fatal("the program does not say its usage")
	}
	file := filepath.Join(d.dir, "local", name[1])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}

// isProgram says whether a block is a script with an argument.
func isProgram(commands []string) bool { return argument.MatchString(strings.Join(commands, "\n")) }
