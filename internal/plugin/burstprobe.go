package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/plugin/burst"
)

// Bounds of a run.
const (
	maxBurst   = 256
	maxRepeats = 20
)

// burstCommand makes many identical calls at once and says what became of them.
type burstCommand struct {
	*cli
	targetFlags
	plan    burst.Plan
	timeout time.Duration
	yes     bool
	record  string
	format  format
}

func newBurstProbe(c *cli) *cobra.Command {
	b := &burstCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "burst-probe ROUTE [--url URL] --yes",
		Short: "Find out what happens to many identical calls at once: admitted, shed, how long",
		Long: `Find out what happens to many identical calls at once: admitted, shed, how long.

Calls with the shortest prompt and an answer of one token are made 1, 5, 10 and 30 at once, three times each: 138 calls
that are real, cost tokens, and stand in the way of other callers. So nothing is sent without --yes.

The report ends with a verdict that is no stronger than its evidence. A run in which everything is admitted cannot tell
"no admission control" from "absorbed"; in one that is shed, the route's own rate limit may be what was measured.`,
		Example: `  # What would be sent, and where to; nothing is
  kubectl spillway burst-probe default --url http://127.0.0.1:8081

  # Do it, and keep a record for later comparison
  kubectl spillway burst-probe default --url http://127.0.0.1:8081 --yes --record burst.json

  # A gentler run
  kubectl spillway burst-probe default --url http://127.0.0.1:8081 --concurrency 1,3 --repeats 2 --yes`,
		Args:              oneRoute,
		ValidArgsFunction: c.completeRoutes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(); err != nil {
				return usage(cmd, "%s", err)
			}
			return b.run(cmd.Context(), args[0])
		},
	}
	b.declare(cmd)
	flags := cmd.Flags()
	flags.IntSliceVar(&b.plan.Levels, "concurrency", burst.DefaultPlan.Levels, "how many calls at once, one level after the other")
	flags.IntVar(&b.plan.Repeats, "repeats", burst.DefaultPlan.Repeats, "how often each level")
	flags.DurationVar(&b.plan.Pause, "pause", burst.DefaultPlan.Pause, "wait between two bursts")
	flags.DurationVar(&b.timeout, "timeout", time.Minute, "give a call up after this long")
	flags.BoolVar(&b.yes, "yes", false, "make the calls")
	flags.StringVar(&b.record, "record", "", "write the run as JSON into this file")
	addFormat(cmd, &b.format, formatJSON, formatYAML)
	return cmd
}

func (b *burstCommand) check() error {
	if len(b.plan.Levels) == 0 {
		return errors.New("--concurrency is empty")
	}
	for _, level := range b.plan.Levels {
		if level < 1 || level > maxBurst {
			return fmt.Errorf("--concurrency: want numbers from 1 to %d", maxBurst)
		}
	}
	switch {
	case b.plan.Repeats < 1 || b.plan.Repeats > maxRepeats:
		return fmt.Errorf("--repeats: want a number from 1 to %d", maxRepeats)
	case b.timeout <= 0:
		return errors.New("--timeout must be longer than 0s")
	case b.plan.Pause < 0:
		return errors.New("--pause must not be negative")
	}
	return nil
}

func (b *burstCommand) run(ctx context.Context, routeOrModel string) error {
	t, err := b.openTarget(ctx, b.targetFlags, routeOrModel)
	if err != nil {
		return err
	}
	defer t.close()
	limit := limitOf(t)
	if !b.yes {
		return b.refuse(t, limit)
	}
	caller := burst.Caller{
		Client: t.client, URL: t.base + "/chat/completions", Model: t.model, Timeout: b.timeout, Now: b.Clock.Now,
		Prepare: authorize,
	}
	began := b.Clock.Now()
	progress := b.progress()
	levels, settled, runErr := burst.Run(ctx, b.plan, caller.Call, progress)
	record := burst.NewRecord(b.plan, levels, settled, limit)
	record.Version, record.Began, record.Target, record.Model = b.Version, began.UTC().Truncate(time.Second), t.base, t.model
	if t.route != nil {
		record.Route = keyOf(t.route).String()
	}
	return errors.Join(runErr, b.report(&record))
}

// refuse names what --yes would do. It is an error, so that a script notices.
func (b *burstCommand) refuse(t *target, limit burst.Limit) error {
	levels := make([]string, len(b.plan.Levels))
	for i, n := range b.plan.Levels {
		levels[i] = fmt.Sprint(n)
	}
	said := fmt.Sprintf("this makes %d calls (%d times %s at once) of the model %q to %s. They are real: they cost tokens, and other callers wait for them.",
		b.plan.Calls(), b.plan.Repeats, strings.Join(levels, ", "), t.model, t.base)
	if limit.Known && limit.On {
		said += fmt.Sprintf("\nThe route's own rate limit is on (%s): it will shed most of them, and the run will say little about what is behind it.", limit.Text)
	}
	return errors.New(said + "\nNothing was sent. Add --yes to make the calls.")
}

// limitOf reads the route's own rate limit.
func limitOf(t *target) burst.Limit {
	if t.route == nil {
		return burst.Limit{Unknown: t.why}
	}
	route := t.route.DeepCopy()
	route.Default()
	l := route.Spec.RateLimit
	if *l.Requests == 0 {
		return burst.Limit{Known: true}
	}
	return burst.Limit{Known: true, On: true, Text: limitText(&l)}
}

func limitText(l *v1alpha1.RateLimit) string {
	return fmt.Sprintf("%d per %s, burst %d", *l.Requests, l.Per, l.Burst)
}

// progress tells how far the run is: on a terminal in one line, else in a line for each burst.
func (b *burstCommand) progress() func(done int, l *burst.Level) {
	live := isTerminal(b.ErrOut)
	return func(done int, l *burst.Level) {
		said := fmt.Sprintf("%d of %d calls: %d at once, burst %d of %d: %d admitted, %d shed, %d failed so far",
			done, b.plan.Calls(), l.Concurrency, l.Bursts, b.plan.Repeats, l.Admitted, l.ShedCalls(), l.FailedCalls())
		if !live {
			fmt.Fprintln(b.ErrOut, said)
			return
		}
		fmt.Fprint(b.ErrOut, clearLine, dimOn, said, dimOff)
		if done == b.plan.Calls() {
			fmt.Fprint(b.ErrOut, clearLine)
		}
	}
}

// report writes the record and prints it. An incomplete run is reported too.
func (b *burstCommand) report(r *burst.Record) error {
	if b.record != "" {
		if err := writeRecord(b.record, r); err != nil {
			return err
		}
	}
	if b.format.structured() {
		return b.format.print(b.Out, r)
	}
	return printRecord(b.Out, r)
}

func writeRecord(path string, r *burst.Record) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return errors.Join(formatJSON.print(file, r), file.Close())
}
