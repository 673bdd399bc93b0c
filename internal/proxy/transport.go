package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spillway-dev/spillway/internal/nonblock"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	// idlePerHost is how many idle connections are kept to one backend. With few, a third of the requests dial anew under
	// load.
	idlePerHost = 512
	// idleFor is how long an idle connection is kept.
	idleFor = 90 * time.Second
	// maxResponseHeader bounds a backend's response header, in bytes.
	maxResponseHeader = 256 << 10
	// pingAfter and pingWait find HTTP/2 connections that have died without a word: many requests share one.
	pingAfter, pingWait = 15 * time.Second, 10 * time.Second
)

// transports holds one transport for each way to connect (TLS configuration and connect timeout), whichever backends use
// it. They outlive table swaps while a table names them.
type transports struct {
	guard guard
	mu    sync.RWMutex
	byKey map[transportKey]*transport
}

// transport is one way to connect: plain takes what it can, of the rest pool reuses idle connections, fresh keeps none.
type transport struct {
	plain       plain
	pool, fresh *http.Transport
}

// transportKey identifies a way to connect. A backend without TLS settings has those of the system.
type transportKey struct {
	tls     table.TLS
	connect time.Duration
}

func keyOf(b *table.Backend, connect time.Duration) transportKey {
	key := transportKey{connect: connect}
	if b.TLS != nil {
		key.tls = *b.TLS
	}
	return key
}

// get returns the transport for a backend. The error is about its TLS settings and quotes nothing of them.
func (t *transports) get(b *table.Backend, connect time.Duration) (*transport, error) {
	key := keyOf(b, connect)
	t.mu.RLock()
	found := t.byKey[key]
	t.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	made, err := t.make(key)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.byKey[key]; found != nil {
		return found, nil
	}
	if t.byKey == nil {
		t.byKey = map[transportKey]*transport{}
	}
	t.byKey[key] = made
	return made, nil
}

// retain drops the transports that the table does not name. Requests that run on them go on; their connections close
// when they end.
func (t *transports) retain(current *table.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := maps.Clone(t.byKey)
	for _, r := range current.Routes() {
		if len(gone) == 0 {
			return // mostly all are named soon: there are few, and what many backends share is one
		}
		for i := range r.Chain {
			delete(gone, keyOf(&r.Chain[i], r.Timeouts.Connect))
		}
	}
	for key, tr := range gone {
		delete(t.byKey, key)
		tr.close()
	}
}

// close closes idle connections, now and when busy ones become idle.
func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.byKey {
		tr.close()
	}
	clear(t.byKey)
}

func (t *transport) close() {
	t.plain.close()
	t.pool.CloseIdleConnections()
}

func (t *transports) make(key transportKey) (*transport, error) {
	config, err := clientTLS(&key.tls)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: key.connect, KeepAlive: 30 * time.Second, ControlContext: t.guard.check}
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return nonblock.Wrap(nc), nil
	}
	dialPatient := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if before, ok := ctx.Value(dialed{}).(*atomic.Bool); ok && before.Swap(true) {
			return nil, errDialed
		}
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &patientConn{Conn: nc, ended: make(chan struct{})}, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // over TLS alone
	build := func() *http.Transport {
		return &http.Transport{
			DialContext:            dialPatient,
			TLSClientConfig:        config.Clone(),
			TLSHandshakeTimeout:    key.connect,
			Protocols:              protocols,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait},
			DisableCompression:     true, // bytes pass as they are; what a backend compresses all the same, decoder undoes
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleFor,
			MaxResponseHeaderBytes: maxResponseHeader,
			// No proxy from the environment, and no response-header timeout: that one looks like the caller's deadline.
		}
	}
	tr := &transport{plain: plain{dial: dial}, pool: build(), fresh: build()}
	tr.fresh.DisableKeepAlives = true
	return tr, nil
}

// dialed is what a context has where its request may open one connection: an *atomic.Bool that says whether it has. http.Transport
// would open another, and again, wherever others took the streams of that one first or the backend has announced its end.
type dialed struct{}

var errDialed = errors.New("the connection that was opened for the request had no stream for it")

// answerWait is what an answer gets to be read that came before a write failed.
const answerWait = time.Second

// patientConn is a connection of http.Transport. A backend may refuse a request that it has not read, and close: then the
// write of the rest fails while the answer is there to be read, and Transport would take what it sees first. So a write that
// has failed is not told before the reader has come to an end. (plain reads behind a failed write by itself.)
type patientConn struct {
	net.Conn
	ended    chan struct{} // closed when there is nothing more to read
	once     sync.Once
	requests atomic.Int64 // that have chosen it
}

func (c *patientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *patientConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	wait := time.NewTimer(answerWait)
	defer wait.Stop()
	select {
	case <-c.ended:
	case <-wait.C:
	}
	return n, err
}

// SetWriteDeadline is how TLS begins its farewell, and nothing else here: who closes reads no more, so that it would wait for itself.
func (c *patientConn) SetWriteDeadline(t time.Time) error {
	c.end()
	return c.Conn.SetWriteDeadline(t)
}

func (c *patientConn) Close() error {
	c.end()
	return c.Conn.Close()
}

// chosen counts one more request.
func (c *patientConn) chosen() *patientConn {
	if c != nil {
		c.requests.Add(1)
	}
	return c
}

// isShared says whether several requests have chosen the connection.
func (c *patientConn) isShared() bool { return c != nil && c.requests.Load() > 1 }

// lives says whether there is such a connection and it has not ended.
func (c *patientConn) lives() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// beneath returns the connection under one of TLS; nil where c is none.
func beneath(c net.Conn) *patientConn {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return nil
	}
	conn, _ := secure.NetConn().(*patientConn)
	return conn
}

func (c *patientConn) end() { c.once.Do(func() { close(c.ended) }) }

func clientTLS(t *table.TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName,
		InsecureSkipVerify: t.SkipVerify} //nolint:gosec // the route's author asked for it: tls.verify None
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("the CA bundle of the backend holds no certificate")
		}
	}
	if t.ClientCert != "" || t.ClientKey != "" {
		pair, err := tls.X509KeyPair([]byte(t.ClientCert), []byte(t.ClientKey))
		if err != nil {
			return nil, fmt.Errorf("the client certificate of the backend cannot be used: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
