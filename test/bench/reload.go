package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/bench/load"
)

const (
	manyFiles, routesPerFile = 100, 100 // 10,000 routes; a file is what fits into a ConfigMap
	reloadEvery              = time.Second
	reloadRate               = 100 // requests per second
)

// reload measures what requests notice of a table of 10,000 routes that is read, compiled and swapped in once a second: the
// slowest of them, in multiples of the p99 of the same load on the same process before.
func (b *bench) reload(ctx context.Context) error {
	dir := filepath.Join(b.arena.dir, "many")
	if err := b.arena.writeMany(dir); err != nil {
		return err
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	p, err := b.arena.startOurs(ctx, addr, dir)
	if err != nil {
		return err
	}
	defer p.stop()
	request, err := load.NewRequest(p.addr, logical(modelShort), 10)
	if err != nil {
		return err
	}
	before := b.steady(ctx, p, request)
	read := p.loaded()
	stop := b.arena.keepChanging(dir)
	during := b.steady(ctx, p, request)
	if err := stop(); err != nil {
		return err
	}
	if read = p.loaded() - read; read == 0 {
		return errors.New("no manifest was read again")
	}
	p99 := before.Latency.Quantile(0.99)
	b.add(keyReload, p.name, during.Latency.Quantile(1).Seconds()/p99.Seconds())
	b.note("Reloads: %d. An answer took %.0f ms in the p99 without them, %.0f ms at most with them; its first token %.1f and %.1f ms.", read,
		milliseconds(p99), milliseconds(during.Latency.Quantile(1)), milliseconds(before.Token.Quantile(0.99)), milliseconds(during.Token.Quantile(1)))
	return ctx.Err()
}

// steady sends short streams at a fixed rate.
func (b *bench) steady(ctx context.Context, p *process, request *load.Request) *load.Tally {
	var c cost
	t := load.Open(ctx, request, load.Run{Conns: rateConns, Rate: reloadRate, Warmup: warmup, Duration: b.window, Measure: b.watch(p.pid, &c)})
	b.noteErrors(p.name, t)
	return t
}

// loaded is how often the proxy has read its manifests.
func (p *process) loaded() int {
	words, _ := os.ReadFile(p.log) // what cannot be read counts as none
	return bytes.Count(words, []byte("manifests loaded"))
}

// writeMany writes the route that is measured and 10,000 others into a folder.
func (ar *arena) writeMany(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(dir, "measured.yaml"), []byte(ar.route(modelShort, modelShort, modelShort, "")), 0o600)
	for i := 0; i < manyFiles && err == nil; i++ {
		err = ar.writeFile(dir, i, 0)
	}
	return err
}

// writeFile writes one of the files; round changes each route in it.
func (ar *arena) writeFile(dir string, file, round int) error {
	var text strings.Builder
	for i := range routesPerFile {
		text.WriteString(ar.route(fmt.Sprintf("r%d-%d", file, i), modelShort, modelShort, fmt.Sprintf("saturation: {slowAfter: %ds}", 10+round)))
	}
	// Renamed, as whoever deploys manifests does: a half-written file must not be read.
	part := filepath.Join(dir, ".part")
	if err := os.WriteFile(part, []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(part, filepath.Join(dir, fmt.Sprintf("routes-%d.yaml", file)))
}

// keepChanging rewrites one file after the other until stop, which returns what went wrong.
func (ar *arena) keepChanging(dir string) (stop func() error) {
	ended, result := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(reloadEvery)
		defer tick.Stop()
		for i := 1; ; i++ {
			select {
			case <-ended:
				result <- nil
				return
			case <-tick.C:
			}
			if err := ar.writeFile(dir, i%manyFiles, i); err != nil {
				result <- err
				<-ended
				return
			}
		}
	}()
	return func() error {
		close(ended)
		return <-result
	}
}
