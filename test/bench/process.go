package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startWithin = 15 * time.Second
	stopWithin  = 5 * time.Second
)

// process is a program that the harness has started and ends.
type process struct {
	name, addr string
	pid        int
	cmd        *exec.Cmd
	stdin      io.Closer
	done       chan struct{}
	log        string
}

// start runs a program that will listen on addr, and returns when it does. Its output goes to a file in dir.
func start(ctx context.Context, dir, name, addr string, command ...string) (*process, error) {
	p := &process{name: name, addr: addr, done: make(chan struct{}), log: filepath.Join(dir, name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches the harness alone, which ends the rest
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // how it ended matters only before it listens, and then its log says why
		close(p.done)
	}()
	if err := p.listening(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) listening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return poll(ctx, 20*time.Millisecond, func() error {
		select {
		case <-p.done:
			words, _ := os.ReadFile(p.log)
			return fatal{fmt.Errorf("%s ended at once: %s", p.name, words)}
		default:
		}
		conn, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// stop ends the program, by force where it does not go. Further calls do nothing.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill() // likewise
		<-p.done
	}
}

// fatal is an error that waiting cannot cure.
type fatal struct{ error }

// poll calls f until it returns nil, a fatal error, or ctx ends.
func poll(ctx context.Context, every time.Duration, f func() error) error {
	for {
		err := f()
		var end fatal
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.error
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// freeAddr returns a loopback address on which nobody listens now.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
