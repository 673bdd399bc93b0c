package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a program of the stack that runs.
type Process struct {
	Name    string
	LogPath string

	cmd  *exec.Cmd
	done chan struct{} // closed when the program has ended
	err  error         // how it ended; read after done

	killed atomic.Bool // by Kill
}

// spec says how to start a Process. A program that is given onLine has it called with each whole line of its output.
type spec struct {
	name   string
	path   string
	args   []string
	logDir string
	onLine func(line []byte)
}

func start(s spec) (*Process, error) {
	logPath := filepath.Join(s.logDir, s.name+".log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", s.name, err)
	}
	tap := &lineTap{file: log, onLine: s.onLine}
	p := &Process{Name: s.name, LogPath: logPath, done: make(chan struct{})}
	p.cmd = exec.Command(s.path, s.args...)
	p.cmd.Stdout, p.cmd.Stderr = tap, tap
	// A group of its own: Ctrl-C reaches the runner alone, which then ends the programs in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.name, err), log.Close())
	}
	go func() {
		p.err = errors.Join(p.cmd.Wait(), log.Close())
		close(p.done)
	}()
	return p, nil
}

// Running says whether the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID of the program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop asks the program to end and waits for it. A program that needs longer than grace is killed, and that is an error,
// as is an exit code other than 0, unless it was killed before.
func (p *Process) Stop(grace time.Duration) error {
	if p.Running() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only where the program has just ended
	}
	select {
	case <-p.done:
		if p.err != nil && !p.killed.Load() {
			return fmt.Errorf("%s ended with an error (%w); its last words:\n%s", p.Name, p.err, p.tail())
		}
		return nil
	case <-time.After(grace):
		p.Kill()
		return fmt.Errorf("%s did not end within %s of SIGTERM and was killed; its last words:\n%s", p.Name, grace, p.tail())
	}
}

// Kill ends the program without warning and waits for it.
func (p *Process) Kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill() // fails only where the program has just ended
	<-p.done
}

// await waits until ready is closed. It fails early with the program's last words when the program ends first.
func (p *Process) await(ctx context.Context, ready <-chan struct{}, what string) error {
	select {
	case <-ready:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended before it was %s; its last words:\n%s", p.Name, what, p.tail())
	case <-ctx.Done():
		return fmt.Errorf("%s is not %s: %w; its last words:\n%s", p.Name, what, context.Cause(ctx), p.tail())
	}
}

// Supervised is a program that is started again when it ends by itself, as a kubelet would.
type Supervised struct {
	spec    spec
	mu      sync.Mutex
	current *Process
	stopped bool
}

// restartAfter is how long a program that has ended stays ended.
const restartAfter = time.Second

func supervise(s spec) (*Supervised, error) {
	p, err := start(s)
	if err != nil {
		return nil, err
	}
	v := &Supervised{spec: s, current: p}
	go v.watch(p)
	return v, nil
}

func (v *Supervised) watch(p *Process) {
	for {
		<-p.Done()
		time.Sleep(restartAfter)
		v.mu.Lock()
		if v.stopped {
			v.mu.Unlock()
			return
		}
		if next, err := start(v.spec); err == nil { // else the next round tries again
			v.current, p = next, next
		}
		v.mu.Unlock()
	}
}

// PID of the program that runs now.
func (v *Supervised) PID() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current.PID()
}

// Stop ends the program for good, see Process.Stop. One that has ended by itself just now is no error.
func (v *Supervised) Stop(grace time.Duration) error {
	v.mu.Lock()
	v.stopped = true
	p := v.current
	v.mu.Unlock()
	if !p.Running() {
		return nil
	}
	return p.Stop(grace)
}

// Kill ends the program for good, without warning.
func (v *Supervised) Kill() {
	v.mu.Lock()
	v.stopped = true
	p := v.current
	v.mu.Unlock()
	p.Kill()
}

// tail returns the end of the program's log.
func (p *Process) tail() []byte {
	const keep = 2000
	all, err := os.ReadFile(p.LogPath)
	if err != nil {
		return []byte(err.Error())
	}
	return all[max(0, len(all)-keep):]
}

// lineTap writes a program's output to its log and shows each whole line to onLine.
type lineTap struct {
	mu      sync.Mutex
	file    *os.File
	onLine  func([]byte)
	pending []byte
}

func (t *lineTap) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.onLine != nil {
		t.pending = append(t.pending, b...)
		for {
			line, rest, found := bytes.Cut(t.pending, []byte("\n"))
			if !found {
				break
			}
			t.onLine(line)
			t.pending = rest
		}
	}
	return t.file.Write(b)
}
