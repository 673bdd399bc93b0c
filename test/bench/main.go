package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/test/bench/page"
)

// longest bounds a run, so that it ends by itself whatever it measures.
const longest = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	proxy   string
	doc     string
	only    map[string]bool // nil: all
	repeats int
	window  time.Duration
	rate    float64
}

// run is the harness, or one of the servers that it starts.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 && servers[args[0]] != nil {
		return servers[args[0]](args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // the pacer keeps a thread to itself
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.measure(ctx); err != nil {
		return err
	}
	text := b.report(time.Now())
	fmt.Println(text)
	if o.doc == "" {
		return nil
	}
	return page.ReplaceSection(o.doc, "make bench", text)
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	set.StringVar(&o.proxy, "proxy", "bin/proxy", "`program` to measure, built by make build")
	set.StringVar(&o.doc, "doc", "docs/benchmarks.md", "`file` whose table is replaced; empty for none")
	set.IntVar(&o.repeats, "repeats", 3, "how often each number is measured; the table shows medians")
	set.DurationVar(&o.window, "window", 5*time.Second, "how long each load is measured")
	set.Float64Var(&o.rate, "rate", 1500, "requests per second of the fixed rate; less is taken where the machine cannot")
	set.Func("only", "measure these `parts` alone: "+strings.Join(partNames(), ","), func(text string) error {
		o.only = map[string]bool{}
		for name := range strings.SplitSeq(text, ",") {
			if !isPart(name) {
				return fmt.Errorf("there is no part %q", name)
			}
			o.only[name] = true
		}
		return nil
	})
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if set.NArg() > 0 || o.repeats < 1 || o.window < time.Second || o.rate < 1 {
		return o, errors.New("want no arguments, at least one repeat, a window of at least 1s and a rate of at least 1")
	}
	return o, nil
}
