package sdk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/http2"
)

// comment is how every heartbeat begins on the wire.
var comment = []byte(`: {"state":`)

// tap stands between one client and the proxy, passes all bytes on and keeps a copy. Before a proxy with TLS it opens
// the records, and both sides still agree with each other on the protocol within.
type tap struct {
	ln      net.Listener
	target  string
	pair    *keyPair // nil: no TLS
	running sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	sent    []byte // by the client
	told    []byte // by the proxy
	changed chan struct{}
}

// newTap stands before the proxy at target, which has the key pair if it is not nil.
func newTap(t *testing.T, target string, pair *keyPair) *tap {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{ln: ln, target: target, pair: pair, changed: make(chan struct{})}
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

func (p *tap) url() string {
	if p.pair != nil {
		return "https://" + p.ln.Addr().String()
	}
	return "http://" + p.ln.Addr().String()
}

// ca is what the client has to trust, empty without TLS.
func (p *tap) ca() string {
	if p.pair == nil {
		return ""
	}
	return p.pair.certPEM
}

func (p *tap) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns = append(p.conns, client)
		p.mu.Unlock()
		p.running.Go(func() { p.connect(client) })
	}
}

// connect joins a client with the proxy until one of them leaves.
func (p *tap) connect(client net.Conn) {
	dial := p.dial
	if p.pair != nil {
		dial = p.dialTLS
	}
	client, proxy, err := dial(client)
	if err != nil {
		client.Close()
		return
	}
	p.running.Go(func() { p.pass(proxy, client, &p.sent) })
	p.pass(client, proxy, &p.told)
}

func (p *tap) dial(client net.Conn) (_, proxy net.Conn, err error) {
	proxy, err = net.Dial("tcp", p.target)
	return client, proxy, err
}

// dialTLS offers the proxy the protocols that the client offers, and the client the one that the proxy chooses.
func (p *tap) dialTLS(client net.Conn) (opened, proxy net.Conn, err error) {
	opened = tls.Server(client, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		inner, err := tls.Dial("tcp", p.target, &tls.Config{RootCAs: p.pair.pool(), NextProtos: hello.SupportedProtos})
		if err != nil {
			return nil, err
		}
		proxy = inner
		config := &tls.Config{Certificates: []tls.Certificate{p.pair.pair}}
		if chosen := inner.ConnectionState().NegotiatedProtocol; chosen != "" {
			config.NextProtos = []string{chosen}
		}
		return config, nil
	}})
	err = opened.(*tls.Conn).Handshake()
	if err != nil && proxy != nil {
		proxy.Close()
	}
	return opened, proxy, err
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
	if frames, ok := bytes.CutPrefix(p.sent, []byte(http2.ClientPreface)); ok {
		n := 0
		eachFrame(frames, func(f http2.Frame) {
			if _, ok := f.(*http2.HeadersFrame); ok {
				n++
			}
		})
		return n
	}
	return bytes.Count(p.sent, []byte("POST /v1/"))
}

// spokeHTTP2 says whether the client began with HTTP/2's preface.
func (p *tap) spokeHTTP2() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.HasPrefix(p.sent, []byte(http2.ClientPreface))
}

// eachFrame calls do with every whole frame of one direction of HTTP/2.
func eachFrame(wire []byte, do func(http2.Frame)) {
	framer := http2.NewFramer(nil, bytes.NewReader(wire))
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return
		}
		do(f)
	}
}

// wire is what the client has read; of HTTP/2, the compressed headers are no text.
func (p *tap) wire() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// body is the first answer's body as far as it came.
func (p *tap) body() []byte {
	if p.spokeHTTP2() {
		const first = 1 // a client's first stream
		var body []byte
		eachFrame(p.wire(), func(f http2.Frame) {
			if data, ok := f.(*http2.DataFrame); ok && data.StreamID == first {
				body = append(body, data.Data()...)
			}
		})
		return body
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(p.wire())), nil)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // as far as it came
	return body
}
