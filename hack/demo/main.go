// Command demo tells the founding case on a real control plane, with real processes, checks each sentence of it and
// prints a transcript. `make demo` builds what it needs and runs it; it exits 0 when the whole story held.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/test/stack"
	"github.com/spillway-dev/spillway/test/story"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	root, err := stack.FindRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "spillway-demo-")
	if err != nil {
		return err
	}
	began := time.Now()
	fmt.Println("Spillway, the founding case: a GPU that also plays games.")
	s, err := stack.Start(ctx, stack.Options{
		Root: root, Dir: dir, Backends: story.Backends(), Tokens: story.Tokens,
		Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Progress: os.Stdout,
	})
	if err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, dir)
	}
	err = errors.Join(tell(ctx, s), s.Stop())
	if err != nil {
		return fmt.Errorf("%w\nlogs are in %s", err, dir)
	}
	fmt.Printf("\nThe whole story held; it took %.0f s.\n", time.Since(began).Seconds())
	return os.RemoveAll(dir)
}

func tell(ctx context.Context, s *stack.Stack) error {
	telling := story.New(s, os.Stdout)
	for _, step := range story.Steps() {
		if err := telling.Tell(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.Title, err)
		}
	}
	return nil
}
