package main

import (
	"context"
	"time"

	"github.com/spillway-dev/spillway/test/bench/load"
)

const (
	unaryConns = 32
	rateConns  = 256
	warmup     = time.Second
	// headroom is the part of the slowest one's maximum that the fixed rate may be: above, queues are what is measured.
	headroom = 0.6

	streamsAtOnce = 200
	streamLasts   = 2 * time.Second // a stream of modelStream
)

// unary measures how many plain answers pass, and what each costs.
func (b *bench) unary(ctx context.Context) error {
	return b.each(ctx, b.arena.names(), func(p *process) error {
		request, err := load.NewRequest(p.addr, logical(modelUnary), 0)
		if err != nil {
			return err
		}
		var c cost
		t := load.Closed(ctx, request, load.Run{Conns: unaryConns, Warmup: warmup, Duration: b.window, Measure: b.watch(p.pid, &c)})
		b.noteErrors(p.name, t)
		b.add(keyUnaryRate, p.name, float64(t.OK())/c.window.Seconds())
		b.add(keyUnaryCPU, p.name, milliseconds(c.cpu)/float64(t.OK())*1000)
		return nil
	})
}

// withDirect are all contestants and the backend itself.
func (b *bench) withDirect() []string { return append([]string{direct}, b.arena.names()...) }

// rate measures what is added to an answer's latency at a fixed rate.
func (b *bench) rate(ctx context.Context) error {
	b.lowerRate()
	p50, p99 := map[string]float64{}, map[string]float64{}
	err := b.each(ctx, b.withDirect(), func(p *process) error {
		request, err := load.NewRequest(p.addr, logical(modelUnary), 0)
		if err != nil {
			return err
		}
		var c cost
		t := load.Open(ctx, request, load.Run{Conns: rateConns, Rate: b.options.rate, Warmup: warmup, Duration: b.window, Measure: b.watch(p.pid, &c)})
		b.noteErrors(p.name, t)
		p50[p.name], p99[p.name] = milliseconds(t.Latency.Quantile(0.5)), milliseconds(t.Latency.Quantile(0.99))
		if p.name != direct {
			b.add(keyRateCPU, p.name, milliseconds(c.cpu)/float64(t.OK())*1000)
		}
		return nil
	})
	b.addAdded(keyRateP50, p50)
	b.addAdded(keyRateP99, p99)
	return err
}

// lowerRate takes less than the asked rate where the machine, as it is now, cannot bear it.
func (b *bench) lowerRate() {
	bearable := b.options.rate
	for _, rates := range b.results[keyUnaryRate] {
		bearable = min(bearable, median(rates)*headroom)
	}
	if bearable < b.options.rate {
		b.options.rate = float64(max(int(bearable)/100*100, 100))
		b.note("The fixed rate was lowered to %.0f requests/s: this machine could not bear more.", b.options.rate)
	}
}

// addAdded notes what each adds to the backend's own time.
func (b *bench) addAdded(key string, times map[string]float64) {
	for _, name := range b.arena.names() {
		b.add(key, name, times[name]-times[direct])
	}
}

// streams measures what is added to the first token of a stream, and what a chunk costs.
func (b *bench) streams(ctx context.Context) error {
	token := map[string]float64{}
	err := b.each(ctx, b.withDirect(), func(p *process) error {
		request, err := load.NewRequest(p.addr, logical(modelStream), 100)
		if err != nil {
			return err
		}
		var c cost
		t := load.Open(ctx, request, load.Run{
			Conns: 4 * streamsAtOnce, Rate: streamsAtOnce / streamLasts.Seconds(),
			Warmup: streamLasts + warmup/2, Duration: b.window, Measure: b.watch(p.pid, &c),
		})
		b.noteErrors(p.name, t)
		token[p.name] = milliseconds(t.Token.Quantile(0.5))
		if p.name != direct {
			// As many streams are open at the start of the window as at its end, so the chunks of those that begin in it count.
			b.add(keyStreamCPU, p.name, milliseconds(c.cpu)/float64(t.Chunks())*1000)
		}
		return nil
	})
	b.addAdded(keyStreamToken, token)
	return err
}
