package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server under test and its end.
type running struct {
	*Server
	stop func()       // SIGTERM
	done <-chan error // what Run returned
}

// serve starts a server with the handler; change may adapt the configuration.
func serve(t *testing.T, handler http.HandlerFunc, change func(*Config)) *running {
	t.Helper()
	cfg := Config{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0",
		Handler: handler,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "llm_requests_total 1\n") }),
		Ready:   func() error { return nil },
		Log:     slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- s.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		http.DefaultClient.CloseIdleConnections()
	})
	return &running{Server: s, stop: stop, done: done}
}

// client speaks one protocol over connections of its own.
func client(t *testing.T, protocol func(*http.Protocols)) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	protocol(transport.Protocols)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func http1(p *http.Protocols) { p.SetHTTP1(true) }
func h2c(p *http.Protocols)   { p.SetUnencryptedHTTP2(true) }

// get returns the answer with its body read.
func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestHealthAndMetrics(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pipeline") }, func(c *Config) {
		c.Ready = func() error { return errors.New("waiting for the routing table: 3 of 32 shards read") }
	})
	data, admin := "http://"+s.Addr(), "http://"+s.AdminAddr()
	cases := map[string]struct {
		url        string
		wantStatus int
		wantBody   string
	}{
		"the process lives":                 {admin + "/healthz", 200, "ok\n"},
		"readiness says what is missing":    {admin + "/readyz", 503, "waiting for the routing table: 3 of 32 shards read\n"},
		"metrics are on the admin port":     {admin + "/metrics", 200, "llm_requests_total 1\n"},
		"the admin port says what it has":   {admin + "/", 200, "/healthz\n/readyz\n/metrics\n"},
		"the admin port serves no requests": {admin + "/v1/models", 404, "404 page not found\n"},
		"the data port is the pipeline's":   {data + "/metrics", 200, "pipeline"},
		"its paths are not rewritten":       {data + "//v1//x", 200, "pipeline"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			resp, body := get(t, client(t, http1), tc.url)
			if diff := cmp.Diff([]any{tc.wantStatus, tc.wantBody}, []any{resp.StatusCode, body}); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdminPortOfAProxyThatIsReady(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, func(c *Config) {
		c.Status = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the page") })
	})
	for path, want := range map[string]string{"/readyz": "ok\n", "/statusz": "the page", "/": "/healthz\n/readyz\n/metrics\n/statusz\n"} {
		if resp, body := get(t, client(t, http1), "http://"+s.AdminAddr()+path); resp.StatusCode != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", path, resp.StatusCode, body, want)
		}
	}
}

func TestBothCleartextProtocolsOnOnePort(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }, nil)
	for want, protocol := range map[string]func(*http.Protocols){"HTTP/1.1": http1, "HTTP/2.0": h2c} {
		if _, got := get(t, client(t, protocol), "http://"+s.Addr()); got != want {
			t.Errorf("protocol = %q, want %q", got, want)
		}
	}
}

func TestConfigurationErrorsSayWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cases := map[string]struct {
		cfg  Config
		want string
	}{
		"half a TLS pair": {Config{TLSCert: "a"}, "--tls-key"},
		"a drain timeout shorter than its delay": {
			Config{DrainDelay: time.Second, DrainTimeout: time.Millisecond}, "raise --drain-timeout"},
		"a negative delay":                    {Config{DrainDelay: -1}, "must not be negative"},
		"a data port in use":                  {Config{Listen: taken.Addr().String()}, "--listen"},
		"an admin port in use":                {Config{Listen: "127.0.0.1:0", AdminListen: taken.Addr().String()}, "--admin-listen"},
		"a TLS pair that does not exist":      {Config{TLSCert: "/nowhere/a", TLSKey: "/nowhere/b"}, "/nowhere/a"},
		"a negative limit of the connections": {Config{MaxConnections: -1}, "must not be negative"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.cfg.Log, tc.cfg.Metrics = slog.New(slog.DiscardHandler), http.NotFoundHandler()
			_, err := New(tc.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one that names %q", err, tc.want)
			}
		})
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(c *Config) { c.MaxConnections = 1 })
	first, second := dial(t, s.Addr()), dial(t, s.Addr())
	answered := make(chan error, 1)
	ask(t, first)
	go func() {
		fmt.Fprint(second, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(second), nil)
		answered <- err
	}()
	for range 50 { // the first goes on, for much longer than an answer takes
		ask(t, first)
	}
	select {
	case <-answered:
		t.Fatal("the second connection was served beside the first")
	default:
	}
	first.Close()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends one request on a connection that is kept and reads the answer.
func ask(t *testing.T, conn net.Conn) *http.Response {
	t.Helper()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}
