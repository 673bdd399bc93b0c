package sdk

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// comment is how every heartbeat begins on the wire.
var comment = []byte(`: {"state":`)

// tap stands between one client and the proxy, passes all bytes on and keeps a copy.
type tap struct {
	ln      net.Listener
	target  string
	running sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	sent    []byte // by the client
	told    []byte // by the proxy
	changed chan struct{}
}

func newTap(t *testing.T, target string) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{ln: ln, target: target, changed: make(chan struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		for _, conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *tap) url() string { return "http://" + p.ln.Addr().String() }

func (p *tap) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		proxy, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, proxy)
		p.mu.Unlock()
		p.running.Go(func() { p.pass(proxy, client, &p.sent) })
		p.running.Go(func() { p.pass(client, proxy, &p.told) })
	}
}

// pass copies from one side to the other, then ends both.
func (p *tap) pass(to, from net.Conn, kept *[]byte) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		*kept = append(*kept, buf[:n]...)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}

// look returns how many comments have passed, and a channel that is closed when more bytes have.
func (p *tap) look() (comments int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.told, comment), p.changed
}

// await returns when n more comments have passed, or ctx ends.
func (p *tap) await(ctx context.Context, n int) {
	before, _ := p.look()
	for {
		now, changed := p.look()
		if now >= before+n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// requests is how often the client has asked.
func (p *tap) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Count(p.sent, []byte("POST /v1/"))
}

// wire is what the client has read.
func (p *tap) wire() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// body is the first answer's body as far as it came.
func (p *tap) body() []byte {
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p.wire())), nil)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // as far as it came
	return body
}
