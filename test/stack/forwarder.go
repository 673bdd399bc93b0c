package stack

import (
	"io"
	"net"
	"sync"
)

// Forwarder stands between a program and the API server, as a network does. It can be cut, and it can die without a word.
type Forwarder struct {
	listener net.Listener
	to       string
	copies   sync.WaitGroup

	mu     sync.Mutex
	isCut  bool
	open   map[net.Conn]bool
	frozen chan struct{} // closed: what runs now goes silent, without a word to either side
}

// NewForwarder listens on a free port of loopback and forwards to host:port. Close ends it.
func NewForwarder(to string) (*Forwarder, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Forwarder{listener: listener, to: to, open: map[net.Conn]bool{}, frozen: make(chan struct{})}
	f.copies.Go(f.accept)
	return f, nil
}

// Addr is where it listens, as host:port.
func (f *Forwarder) Addr() string { return f.listener.Addr().String() }

// Cut ends all connections and lets no new one through; Mend does again.
func (f *Forwarder) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = true
	for c := range f.open {
		_ = c.Close()
	}
}

// Mend lets connections through again after Cut.
func (f *Forwarder) Mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isCut = false
}

// Freeze lets all connections that exist go silent; new ones work.
func (f *Forwarder) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen)
	f.frozen = make(chan struct{})
}

// Close ends it with all its connections.
func (f *Forwarder) Close() error {
	err := f.listener.Close()
	f.Cut()
	f.copies.Wait()
	return err
}

func (f *Forwarder) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", f.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		f.join(near, far)
	}
}

// join copies between two connections, unless the line is cut.
func (f *Forwarder) join(near, far net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isCut {
		_, _ = near.Close(), far.Close()
		return
	}
	f.open[near], f.open[far] = true, true
	frozen := f.frozen
	f.copies.Go(func() { f.copy(near, far, frozen) })
	f.copies.Go(func() { f.copy(far, near, frozen) })
}

// copy passes on what comes until one end closes; frozen, it reads on and passes on nothing.
func (f *Forwarder) copy(to, from net.Conn, frozen <-chan struct{}) {
	defer f.forget(to, from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-frozen:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, writeErr := to.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

func (f *Forwarder) forget(conns ...net.Conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(f.open, c)
	}
}

// FreeAddr returns an address of loopback on which nobody listens at the moment, for programs that do not tell theirs.
func FreeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
