package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// plainRead and plainWrite are the buffers of a connection. The second is held only while a request is written.
	plainRead, plainWrite = 2 << 10, 4 << 10
	// maxInformational is how many 1xx answers may come before the one that counts.
	maxInformational = 5
)

var (
	errHeaderTooLarge = errors.New("header of the answer is larger than the limit")
	errInformational  = errors.New("too many 1xx answers")
)

// plain sends requests over HTTP/1.1 without TLS, with small bodies: what a GPU in the next room is asked. There
// http.Transport costs two goroutines, their hand-overs and a second set of buffers per connection, a third of all that a
// request costs here; the goroutine of the request can write and read by itself. The format on the wire is net/http's in both
// directions. A body that is small is written whole before the answer is looked at, without waiting for its reader.
type plain struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	idle   map[string][]*plainConn // by address; what was used last stands last
	reaper *time.Timer             // runs while there are idle connections
	closed bool
}

// takes says whether a request is one for plain.
func (p *plain) takes(r *http.Request) bool {
	return r.URL.Scheme == "http" && r.ContentLength <= joinUpTo && isASCII(r.URL.Host)
}

// isASCII says whether a host is written as it is dialled.
func isASCII(host string) bool {
	for i := range len(host) {
		if host[i] >= 0x80 {
			return false
		}
	}
	return true
}

// roundTrip sends r. One that died on a reused connection before any byte of an answer met a backend that had closed it
// meanwhile: it is sent once more, on a fresh one.
func (p *plain) roundTrip(u *upstream, r *http.Request) error {
	addr := r.URL.Host
	if r.URL.Port() == "" {
		addr = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	if c := p.take(addr); c != nil {
		err := c.roundTrip(u, r)
		if err == nil || c.answered || c.left {
			return err
		}
		c.close()
		u.conn, r = nil, u.request(context.Background())
	}
	dial := func(ctx context.Context) (net.Conn, error) { return p.dial(ctx, "tcp", addr) }
	nc, err := awaitCall(u, dial, func(late net.Conn) { late.Close() })
	if err != nil {
		return err
	}
	c := &plainConn{pool: p, addr: addr, nc: nc}
	c.br = bufio.NewReaderSize(c, plainRead)
	return c.roundTrip(u, r)
}

// take returns an idle connection that is still good; nil where there is none.
func (p *plain) take(addr string) *plainConn {
	for {
		p.mu.Lock()
		conns := p.idle[addr]
		if len(conns) == 0 {
			p.mu.Unlock()
			return nil
		}
		c := conns[len(conns)-1]
		conns[len(conns)-1] = nil
		p.idle[addr] = conns[:len(conns)-1]
		p.mu.Unlock()
		if reusable(c.nc) {
			return c
		}
		c.nc.Close()
	}
}

// put keeps a connection for the next request.
func (p *plain) put(c *plainConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.idle[c.addr]
	if p.closed || len(conns) >= idlePerHost {
		c.nc.Close()
		return
	}
	if p.idle == nil {
		p.idle = map[string][]*plainConn{}
	}
	c.since = time.Now()
	p.idle[c.addr] = append(conns, c)
	if p.reaper == nil {
		p.reaper = time.AfterFunc(idleFor, func() { p.reap(time.Now()) })
	}
}

// reap closes the connections that have been idle for too long.
func (p *plain) reap(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, conns := range p.idle {
		n := 0
		for n < len(conns) && now.Sub(conns[n].since) >= idleFor {
			conns[n].nc.Close()
			n++
		}
		if n == len(conns) {
			delete(p.idle, addr)
			continue
		}
		p.idle[addr] = append([]*plainConn(nil), conns[n:]...)
	}
	p.reaper = nil
	if len(p.idle) > 0 {
		p.reaper = time.AfterFunc(idleFor/2, func() { p.reap(time.Now()) })
	}
}

// close closes idle connections, now and when busy ones become idle.
func (p *plain) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, conns := range p.idle {
		for _, c := range conns {
			c.nc.Close()
		}
	}
	clear(p.idle)
	if p.reaper != nil {
		p.reaper.Stop()
	}
}
