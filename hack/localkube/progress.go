package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress tells a person what a build that takes minutes is doing: one line that is rewritten on a terminal, a line
// every few seconds elsewhere (a CI log must show that something happens).
type progress struct {
	out   io.Writer
	tty   bool
	every time.Duration

	mu        sync.Mutex
	name      string // the binary being built, and which one of how many
	since     time.Time
	downloads int // modules, since the start of this binary
	done      int // packages compiled
	total     int // packages to compile; known is false before they are counted
	known     bool
	midLine   bool // the terminal's cursor stands behind a line that will be rewritten
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: 5 * time.Second}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.tty, p.every = true, 250*time.Millisecond
		}
	}
	return p
}

// watch runs build and reports on it under name until it returns, how it ended included.
func (p *progress) watch(name string, build func() error) error {
	p.mu.Lock()
	p.name, p.since, p.downloads, p.done, p.total, p.known = name, time.Now(), 0, 0, 0, false
	p.show()
	p.mu.Unlock()
	stop := p.tick()
	err := build()
	stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	verb := "built in"
	if err != nil {
		verb = "not built, after"
	}
	p.line(fmt.Sprintf("%s: %s %s", p.name, verb, p.elapsed()))
	return err
}

// tick shows the state again and again until stop is called; stop returns when nothing more will be written.
func (p *progress) tick() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(p.every)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				p.mu.Lock()
				p.show()
				p.mu.Unlock()
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (p *progress) expect(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.known = total, true
}

func (p *progress) compiled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
}

func (p *progress) downloaded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.downloads++
}

// say writes a line of its own.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(text)
}

// state describes the step; the caller holds mu.
func (p *progress) state() string {
	switch {
	case !p.known && p.downloads > 0:
		return fmt.Sprintf("downloading, %d modules so far", p.downloads)
	case !p.known:
		return "looking at its packages"
	case p.done >= p.total-1: // the last is the main package, compiled in no time and then linked for long
		return "linking"
	}
	return fmt.Sprintf("%d of %d packages compiled", p.done, p.total)
}

// show writes the state, on a terminal over the line before; the caller holds mu.
func (p *progress) show() {
	text := fmt.Sprintf("%s: %s, %s", p.name, p.state(), p.elapsed())
	if !p.tty {
		p.line(text)
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[Klocalkube: %s", text)
	p.midLine = true
}

// line writes a line that stays; the caller holds mu.
func (p *progress) line(text string) {
	if p.midLine {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.midLine = false
	}
	fmt.Fprintf(p.out, "localkube: %s\n", text)
}

func (p *progress) elapsed() time.Duration { return time.Since(p.since).Round(time.Second) }
