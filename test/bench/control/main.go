package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/test/bench/page"
	"github.com/spillway-dev/spillway/test/bench/proc"
)

// longest bounds a run, so that it ends by itself whatever it measures.
const longest = 19 * time.Minute

func main() {
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-control:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	doc                   string
	routes, pins, reports int
	samples               int
	idle                  time.Duration
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if err := proc.Supported(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = b.measure(ctx)
	text := b.report(time.Now())
	fmt.Println(text) // what was measured is worth something also where a later part failed
	if err != nil || o.doc == "" {
		return err
	}
	return page.ReplaceSection(o.doc, "make bench-control", text)
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("control", flag.ContinueOnError)
	set.StringVar(&o.doc, "doc", "docs/benchmarks.md", "`file` whose table is replaced; empty for none")
	set.IntVar(&o.routes, "routes", 10_000, "routes, in 100 namespaces")
	set.IntVar(&o.pins, "pins", 1_000, "pins, in the same namespaces")
	set.IntVar(&o.reports, "reports", 200, "simulated proxies")
	set.IntVar(&o.samples, "samples", 100, "edits, and openings; at most 100")
	set.DurationVar(&o.idle, "idle", time.Minute, "how long the idle control plane is watched")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 || o.routes < 2*namespaces || o.pins < 0 || o.reports < 0 || o.samples < 1 || o.samples > namespaces || o.idle < time.Second {
		return o, fmt.Errorf("want no arguments, at least %d routes, 1 to %d samples and a second of idleness", 2*namespaces, namespaces)
	}
	return o, nil
}
