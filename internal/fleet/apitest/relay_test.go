package apitest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/internal/table"
)

// relay stands between a proxy and the API server, as a network does.
type relay struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	frozen chan struct{} // closed: what runs now goes silent, without a word to either side
	conns  sync.WaitGroup
}

func newRelay(target string) *relay {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	r := &relay{listener: listener, target: target, frozen: make(chan struct{})}
	r.conns.Go(r.accept)
	DeferCleanup(func() {
		Expect(listener.Close()).To(Succeed())
		r.conns.Wait()
	})
	return r
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		r.mu.Lock()
		frozen := r.frozen
		r.mu.Unlock()
		r.conns.Go(func() { pipe(near, far, frozen) })
		r.conns.Go(func() { pipe(far, near, frozen) })
	}
}

// freeze lets all connections that exist go silent; new ones work.
func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.frozen)
	r.frozen = make(chan struct{})
}

// pipe copies until one end closes; frozen, it reads on and passes on nothing.
func pipe(to, from net.Conn, frozen <-chan struct{}) {
	defer from.Close()
	defer to.Close()
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

var _ = Describe("A connection that dies without a word", func() {
	It("is noticed and replaced", func(ctx SpecContext) {
		publish(ctx, table.Shards, "m")
		config, _ := identity(ctx, account, "proxy-1")
		server, err := url.Parse(config.Host)
		Expect(err).NotTo(HaveOccurred())
		network := newRelay(server.Host)
		config.Host = "https://" + network.listener.Addr().String()
		p := runProxy("proxy-1", config, nil)
		Eventually(p.Ready).Should(Succeed())

		network.freeze()
		publish(ctx, table.Shards, "m", "another")
		began := time.Now()
		Eventually(p.models).Should(ContainElement("another"))
		AddReportEntry("death of the connection to a new table", time.Since(began))
		p.stop()
	})
})
