package telemetry

import (
	"io"
	"sync"
	"time"
)

const (
	bufferFlushAfter = 200 * time.Millisecond // how long a line may wait for others
	bufferFlushAt    = 32 << 10               // bytes that wake the writer early
	bufferMax        = 1 << 20                // bytes after which whoever logs waits for the disk
)

// BufferedWriter gathers small writes and hands them on in large ones from a goroutine of its own, so that a request does
// not wait for the disk. Nothing is dropped: where the disk is slower than the requests, they wait for it. Close writes
// the rest.
type BufferedWriter struct {
	w    io.Writer
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	space   sync.Cond // signalled when pending was taken
	pending []byte
	spare   []byte
	closed  bool
	err     error // the last failure of w
}

// NewBufferedWriter starts the goroutine that writes to w until Close.
func NewBufferedWriter(w io.Writer) *BufferedWriter {
	b := &BufferedWriter{w: w, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	b.space.L = &b.mu
	go b.run()
	return b
}

// Write takes a copy of p. The error is that of an earlier write to the underlying writer, if it failed. After Close, p is
// written through.
func (b *BufferedWriter) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.pending) >= bufferMax && !b.closed {
		b.space.Wait()
	}
	if b.closed {
		b.mu.Unlock()
		<-b.done // the last flush must not meet this write
		b.mu.Lock()
		return b.w.Write(p)
	}
	b.pending = append(b.pending, p...)
	if len(b.pending) >= bufferFlushAt {
		b.wakeUp()
	}
	err := b.err
	b.err = nil
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is pending and ends the goroutine. It returns the last error of the underlying writer.
func (b *BufferedWriter) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.space.Broadcast()
	b.mu.Unlock()
	close(b.stop)
	<-b.done
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *BufferedWriter) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *BufferedWriter) run() {
	defer close(b.done)
	tick := time.NewTicker(bufferFlushAfter)
	defer tick.Stop()
	for {
		select {
		case <-b.wake:
		case <-tick.C:
		case <-b.stop:
			b.flush()
			return
		}
		b.flush()
	}
}

func (b *BufferedWriter) flush() {
	b.mu.Lock()
	out := b.pending
	b.pending, b.spare = b.spare[:0], nil
	b.space.Broadcast()
	b.mu.Unlock()
	var err error
	if len(out) > 0 {
		_, err = b.w.Write(out)
	}
	b.mu.Lock()
	b.spare = out
	if err != nil {
		b.err = err
	}
	b.mu.Unlock()
}
