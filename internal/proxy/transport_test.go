package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

func newTransports(t *testing.T) *transports {
	ts := &transports{guard: guard{allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	t.Cleanup(ts.close)
	return ts
}

// testCertificates are those of httptest's servers.
func testCertificates() []tls.Certificate {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	return s.TLS.Certificates
}

func mustGet(t *testing.T, ts *transports, b *table.Backend, connect time.Duration) *transport {
	t.Helper()
	tr, err := ts.get(b, connect)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Connections are kept by the transport, so what a table still names must stay the same one.
func TestTransportsLastWhileATableNamesThem(t *testing.T) {
	ts := newTransports(t)
	secure := table.Backend{ID: "s", TLS: &table.TLS{ServerName: "s.example"}}
	routes := []*table.Route{
		{Namespace: "ns", Name: "a", Model: "ns/a", Timeouts: table.Timeouts{Connect: time.Second}, Chain: []table.Backend{{ID: "a"}, secure}},
		{Namespace: "ns", Name: "b", Model: "ns/b", Timeouts: table.Timeouts{Connect: time.Minute}, Chain: []table.Backend{{ID: "b"}}},
	}
	ask := func() (got [3]*transport) {
		for i, key := range []transportKey{{connect: time.Second}, {connect: time.Second, tls: *secure.TLS}, {connect: time.Minute}} {
			got[i] = mustGet(t, ts, &table.Backend{TLS: &key.tls}, key.connect)
		}
		return got
	}
	first := ask()
	if first[0] == first[1] || first[0] == first[2] {
		t.Error("different ways to connect share a transport")
	}
	ts.retain(table.New(routes))
	if ask() != first {
		t.Error("a table that names all has cost one its transport")
	}
	ts.retain(table.New(routes[:1]))
	if second := ask(); second[0] != first[0] || second[1] != first[1] || second[2] == first[2] {
		t.Error("what the table names no longer is kept, or the rest is not")
	}
}

func TestConnectTimeoutBoundsADial(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	tr := mustGet(t, newTransports(t), &table.Backend{}, time.Nanosecond)
	if _, err := tr.plain.dial(t.Context(), "tcp", s.Listener.Addr().String()); err == nil || describe(err) != "connect timeout" {
		t.Errorf("plain: error %v", err)
	}
	if _, err := tr.pool.DialContext(t.Context(), "tcp", s.Listener.Addr().String()); err == nil || describe(err) != "connect timeout" {
		t.Errorf("pool: error %v", err)
	}
}

// What is sent again must not meet another connection that has died meanwhile.
func TestConnectionsOfOneRequestAreUsedOnce(t *testing.T) {
	var opened atomic.Int32
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	tr := mustGet(t, newTransports(t), &table.Backend{}, time.Minute)
	for range 2 {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, nil)
		resp, err := tr.alone(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	if n := opened.Load(); n != 2 {
		t.Errorf("two requests opened %d connections", n)
	}
}

// unwritable is a connection that takes nothing; reads return what is sent to it.
type unwritable struct {
	net.Conn
	reads chan error
}

var errUnwritable = errors.New("broken pipe")

func (u unwritable) Read([]byte) (int, error)  { return 1, <-u.reads }
func (u unwritable) Write([]byte) (int, error) { return 0, errUnwritable }
func (u unwritable) Close() error              { return nil }

func TestWriteThatFailsWaitsForTheReader(t *testing.T) {
	const soon = answerWait / 4
	for name, tc := range map[string]struct {
		meanwhile func(c *patientConn, reads chan error)
		want      time.Duration
	}{
		"nothing comes":          {func(*patientConn, chan error) {}, answerWait},
		"an answer comes":        {func(_ *patientConn, reads chan error) { reads <- nil }, answerWait},
		"its end comes":          {func(_ *patientConn, reads chan error) { reads <- nil; reads <- io.EOF }, soon},
		"the connection closes":  {func(c *patientConn, _ chan error) { _ = c.Close() }, soon},
		"it closes after an end": {func(c *patientConn, reads chan error) { reads <- io.EOF; _ = c.Close() }, soon},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := make(chan error)
				c := &patientConn{Conn: unwritable{reads: reads}, ended: make(chan struct{})}
				go func() {
					for {
						if _, err := c.Read(nil); err != nil {
							return
						}
					}
				}()
				go func() {
					time.Sleep(soon)
					tc.meanwhile(c, reads)
				}()
				began := time.Now()
				if _, err := c.Write(nil); !errors.Is(err, errUnwritable) || time.Since(began) != tc.want {
					t.Errorf("error %v after %s, want it after %s", err, time.Since(began), tc.want)
				}
				synctest.Wait()
				select {
				case reads <- io.EOF:
				default: // the reader has ended
				}
			})
		})
	}
}

// Who reads the farewell of TLS closes, which writes one in turn: to where nobody may be any more.
func TestClosingDoesNotWaitForItself(t *testing.T) {
	certificates := testCertificates()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := tls.Client(&patientConn{Conn: near, ended: make(chan struct{})}, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // of a test
		go func() {
			s := tls.Server(far, &tls.Config{Certificates: certificates}) //nolint:gosec // of a test
			_ = s.Handshake()
			_ = s.CloseWrite()
			_ = far.Close()
		}()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("error %v, want the end", err)
		}
		synctest.Wait()
		began := time.Now()
		_ = c.Close()
		if d := time.Since(began); d != 0 {
			t.Errorf("closing took %s", d)
		}
	})
}
