package load

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long the last streams may take to show their first token, once all are sent.
const patience = 20 * time.Second

// Held are streams that are open at the same time.
type Held struct {
	Live, Failed int

	conns   []net.Conn
	readers sync.WaitGroup
}

// Hold opens n streams, spread over ramp, and returns when each has had a token or has failed. Release ends them.
func Hold(ctx context.Context, r *Request, n int, ramp time.Duration) *Held {
	h := &Held{}
	var live, failed atomic.Int64
	for range n {
		c := newConn(r.addr)
		if c.dial() != nil || ctx.Err() != nil {
			failed.Add(1)
			continue
		}
		h.conns = append(h.conns, c.nc)
		h.readers.Go(func() {
			token := false
			_, _ = c.do(r, func() { token = true; live.Add(1) }) // ends with Release
			if !token {
				failed.Add(1)
			}
		})
		sleep(ctx, ramp/time.Duration(n))
	}
	for began := time.Now(); live.Load()+failed.Load() < int64(n) && time.Since(began) < patience && ctx.Err() == nil; {
		sleep(ctx, 20*time.Millisecond)
	}
	h.Live = int(live.Load())
	h.Failed = n - h.Live
	return h
}

// Release hangs up on all streams.
func (h *Held) Release() {
	for _, nc := range h.conns {
		nc.Close() // the reader ends with an error, and does not dial again: its connection was a fresh one
	}
	h.readers.Wait()
}
