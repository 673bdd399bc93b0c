package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spillway-dev/spillway/test/bench/load"
	"github.com/spillway-dev/spillway/test/bench/mock"
)

const (
	leavers     = 5 // for each phase
	silentTries = 3 // for each stage
	openedTries = 200
	noticeLimit = 10 * time.Second
	answerLimit = 20 * time.Second
)

// stats asks backend a what its callers do.
func (b *bench) stats(ctx context.Context) (stats mock.Stats, err error) {
	err = fetch(ctx, "http://"+b.arena.a.addr+"/stats", func(r *http.Response) error {
		return json.NewDecoder(r.Body).Decode(&stats)
	})
	return stats, err
}

// leaving measures how long it takes until the backend sees that a caller hung up: before the header of the answer, before
// the first token, and within the stream.
func (b *bench) leaving(ctx context.Context) error {
	return b.each(ctx, b.arena.names(), func(p *process) error {
		var slowest time.Duration
		for _, model := range []string{"no-headers", "role-only", modelLong} {
			for range leavers {
				took, err := b.leave(ctx, p, logical(model))
				if err != nil {
					return fmt.Errorf("at %s: %w", model, err)
				}
				slowest = max(slowest, took)
			}
		}
		b.add(keyLeaving, p.name, milliseconds(slowest))
		return nil
	})
}

// leave sends a request, hangs up once the backend is at work, and returns when that was seen.
func (b *bench) leave(ctx context.Context, p *process, model string) (time.Duration, error) {
	before, err := b.stats(ctx)
	if err != nil {
		return 0, err
	}
	request, err := load.NewRequest(p.addr, model, 1)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	wait := func(what string, seen func(mock.Stats) bool) error {
		return poll(ctx, 2*time.Millisecond, func() error {
			now, err := b.stats(ctx)
			if err == nil && !seen(now) {
				err = errors.New(what)
			}
			return err
		})
	}
	left, err := load.Leave(request, func() error {
		if err := wait("the request has not arrived", func(s mock.Stats) bool { return s.Active > before.Active }); err != nil {
			return err
		}
		return pause(ctx, 50*time.Millisecond) // so that the answer has got as far as it goes
	})
	if err != nil {
		return 0, err
	}
	var at int64
	err = wait("the backend sees nobody leave", func(s mock.Stats) bool {
		at = s.LeftAt
		return s.Left > before.Left
	})
	return time.Unix(0, at).Sub(left), err
}

// failover measures when the first token of the second backend comes after the first one went quiet, at each stage.
func (b *bench) failover(ctx context.Context) error {
	return b.each(ctx, []string{ours}, func(p *process) error {
		for _, stage := range silences {
			request, err := load.NewRequest(p.addr, logical(stage), 10)
			if err != nil {
				return err
			}
			for range silentTries {
				token, err := load.Once(request, answerLimit)
				if err != nil {
					return fmt.Errorf("%s: %w", stage, err)
				}
				b.add(keySilent+stage, p.name, milliseconds(token-slowAfter))
			}
		}
		return nil
	})
}

// opened measures what an open breaker of the first backend adds to the first token of the second.
func (b *bench) opened(ctx context.Context) error {
	return b.each(ctx, []string{ours}, func(p *process) error {
		through, err := load.NewRequest(p.addr, logical(modelOpened), 10)
		if err != nil {
			return err
		}
		straight, err := load.NewRequest(b.arena.b.addr, logical(modelShort), 10)
		if err != nil {
			return err
		}
		if _, err := load.Once(through, answerLimit); err != nil { // this one meets the silence
			return err
		}
		var added, own load.Hist
		for range openedTries {
			for request, times := range map[*load.Request]*load.Hist{through: &added, straight: &own} {
				token, err := load.Once(request, answerLimit)
				if err != nil {
					return err
				}
				times.Add(token)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		b.add(keyOpenedP50, p.name, milliseconds(added.Quantile(0.5)-own.Quantile(0.5)))
		b.add(keyOpenedP99, p.name, milliseconds(added.Quantile(0.99)-own.Quantile(0.99)))
		return nil
	})
}
