package fleet

import (
	"io"
	"net"
	"sync"
)

// forwarder stands between a proxy and the API server, and can be cut.
type forwarder struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	isCut    bool
	open     map[net.Conn]bool
}

func newForwarder(to string) (*forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{listener: listener, to: to, open: map[net.Conn]bool{}}
	go f.run()
	return f, nil
}

func (f *forwarder) addr() string { return f.listener.Addr().String() }

func (f *forwarder) run() {
	for {
		from, err := f.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", f.to)
		if err != nil || !f.keep(from, to) {
			_ = from.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			}()
		}
	}
}

// keep notes a pair of connections; false while the line is cut.
func (f *forwarder) keep(conns ...net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		if f.open[c] = !f.isCut; f.isCut {
			_ = c.Close()
		}
	}
	return !f.isCut
}

// cut ends all connections and lets no new one through; mend does again.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = true
	for c := range f.open {
		_ = c.Close()
	}
	clear(f.open)
}

func (f *forwarder) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = false
}
