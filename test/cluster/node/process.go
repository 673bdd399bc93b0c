//go:build linux

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// process is a program of the node that runs until everything ends. Its output goes to a file.
type process struct {
	name  string
	log   string
	ended chan struct{}
	state string // set when ended is closed
}

// start runs a program. It is ended by the kernel, with the namespaces.
func (n *Node) start(path string, args ...string) error {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(n.logs, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{name: name, log: log.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the state says it
		p.state = cmd.ProcessState.String()
		close(p.ended)
	}()
	n.processes = append(n.processes, p)
	return nil
}

// Err says which program of the node has ended, with the end of its log; none should.
func (n *Node) Err() error {
	for _, p := range n.processes {
		select {
		case <-p.ended:
			log, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s ended: %s\n%s", p.name, p.state, log[max(0, len(log)-2000):])
		default:
		}
	}
	return nil
}

// until calls try until it succeeds, ctx ends, or a program of the node does.
func (n *Node) until(ctx context.Context, what string, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ended := n.Err(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// run runs a command to its end.
func run(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
