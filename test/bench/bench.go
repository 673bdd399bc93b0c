package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spillway-dev/spillway/test/bench/load"
	"github.com/spillway-dev/spillway/test/bench/proc"
)

// part is a group of numbers that are measured together.
type part struct {
	name    string
	repeats bool // measured as often as -repeats says
	measure func(*bench, context.Context) error
}

// parts in the order in which a round of measurements runs.
var parts = []part{
	{"unary", true, (*bench).unary},
	{"rate", true, (*bench).rate},
	{"streams", true, (*bench).streams},
	{"held", true, (*bench).held},
	{"crowd", false, (*bench).crowd},
	{"broken", false, (*bench).broken},
	{"leaving", false, (*bench).leaving},
	{"failover", false, (*bench).failover},
	{"opened", false, (*bench).opened},
	{"reload", false, (*bench).reload},
}

func partNames() []string {
	names := make([]string, len(parts))
	for i := range parts {
		names[i] = parts[i].name
	}
	return names
}

func isPart(name string) bool { return slices.Contains(partNames(), name) }

// bench is one run.
type bench struct {
	options
	arena *arena
	round int

	results map[string]map[string][]float64 // key of a row -> contestant -> one number for each repeat
	notes   []string                        // what a reader of the table must know

	watched, foreign time.Duration // CPU time that was there while measuring, and that others took of it
}

func newBench(ctx context.Context, o options) (*bench, error) {
	if err := proc.Supported(); err != nil {
		return nil, err
	}
	ar, err := newArena(ctx, o.proxy)
	if err != nil {
		return nil, err
	}
	return &bench{options: o, arena: ar, results: map[string]map[string][]float64{}}, nil
}

func (b *bench) close() { b.arena.close() }

// measure runs all parts: those that are repeated in alternation, so that a disturbance meets all alike.
func (b *bench) measure(ctx context.Context) error {
	for b.round = range b.repeats {
		for _, p := range parts {
			if (b.only != nil && !b.only[p.name]) || (b.round > 0 && !p.repeats) {
				continue
			}
			fmt.Fprintf(os.Stderr, "bench: round %d of %d, %s\n", b.round+1, b.repeats, p.name)
			err := p.measure(b, ctx)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// each runs f for every contestant, a fresh process each, in an order that changes from round to round.
func (b *bench) each(ctx context.Context, names []string, f func(*process) error) error {
	for i := range names {
		name := names[(i+b.round)%len(names)]
		p, stop, err := b.arena.enter(ctx, name)
		if err != nil {
			return err
		}
		err = f(p)
		stop()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// add notes one number.
func (b *bench) add(key, contestant string, value float64) {
	if b.results[key] == nil {
		b.results[key] = map[string][]float64{}
	}
	b.results[key][contestant] = append(b.results[key][contestant], value)
}

// note keeps a sentence for the reader of the table, once.
func (b *bench) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// noteErrors keeps what went wrong in a run that should have been clean.
func (b *bench) noteErrors(contestant string, t *load.Tally) {
	if failed := t.Failed(); failed > 0 {
		b.note("%s: %d of %d requests went wrong: %v", contestant, failed, failed+t.OK(), t.Errors())
	}
}

// cost is what a process used over the measured part of a run.
type cost struct{ cpu, window time.Duration }

// watch returns a load.Run's Measure that fills c for a process.
func (b *bench) watch(pid int, c *cost) func() func() {
	return func() func() {
		began, cpu, busy, own := time.Now(), proc.CPU(pid), proc.Busy(), proc.CPU(os.Getpid())
		return func() {
			c.window = time.Since(began)
			c.cpu = proc.CPU(pid) - cpu
			b.watched += c.window * time.Duration(cpus())
			b.foreign += max(proc.Busy()-busy-(proc.CPU(os.Getpid())-own), 0)
		}
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
