package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// stopGrace bounds how long an interrupted go command may take to remove its work directory.
const stopGrace = 10 * time.Second

// build compiles b into the file out.
func (r recipe) build(ctx context.Context, b binary, out string, p *progress) error {
	total, err := r.countStale(ctx, b, p)
	if err != nil {
		return err
	}
	p.expect(total)
	args := append([]string{"build", "-v"}, r.buildArgs...)
	return r.goCommand(ctx, append(args, "-o", out, b.Package), io.Discard, p)
}

// countStale returns how many packages "go build" will compile: -v names only those, and most may be in Go's cache. It
// is also the step that downloads modules.
func (r recipe) countStale(ctx context.Context, b binary, p *progress) (int, error) {
	var stale strings.Builder
	err := r.goCommand(ctx, []string{"list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", b.Package}, &stale, p)
	return strings.Count(stale.String(), "\n"), err
}

// goCommand runs one go command and feeds what it says to p. When ctx ends it is interrupted, with all its compilers,
// and given stopGrace to clean up after itself.
func (r recipe) goCommand(ctx context.Context, args []string, stdout io.Writer, p *progress) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.module
	cmd.Env = append(os.Environ(), buildEnv...)
	cmd.Stdout = stdout
	// A process group of its own: a Ctrl-C at the terminal reaches it once, through us, and its compilers with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = stopGrace
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := listen(pipe, p)
	err = cmd.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, said)
	}
	return nil
}

var importPath = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._~/-]*$`)

// maxSaid is how many lines of a failing go command are repeated to the user.
const maxSaid = 50

// listen reads a go command's stderr to its end: a bare import path is a package compiled, "go: downloading" is a module
// fetched, and the last of everything else is returned, to be shown if the command fails.
func listen(stderr io.Reader, p *progress) string {
	var said []string
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		switch line := lines.Text(); {
		case importPath.MatchString(line):
			p.compiled()
		case strings.HasPrefix(line, "go: downloading "):
			p.downloaded()
		default:
			said = append(said, line)
			said = said[max(0, len(said)-maxSaid):]
		}
	}
	// A line beyond the buffer ends the scan; the command must be able to go on writing all the same.
	_, _ = io.Copy(io.Discard, stderr)
	return strings.Join(said, "\n")
}
