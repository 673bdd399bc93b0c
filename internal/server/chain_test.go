package server

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

const (
	chatPath = "/v1/chat/completions"
	token    = `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	finish   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	whole    = `{"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`
)

// pipeline is the handler that a proxy has in production, with one route m to a backend.
func pipeline(t *testing.T, backend http.HandlerFunc, writeTimeout time.Duration) http.HandlerFunc {
	t.Helper()
	s := httptest.NewServer(backend)
	route := &table.Route{Namespace: "ns", Name: "m", Model: "m", Heartbeat: table.Heartbeat{CommitAfter: time.Minute},
		ResponseModel: table.ModelPhysical, Timeouts: table.Timeouts{Connect: time.Minute, Idle: time.Minute},
		Chain: []table.Backend{{ID: "a", Name: "a", BaseURL: s.URL + "/v1", Model: "m", Failure: table.Failure{Threshold: 3, Cooldown: time.Minute}}}}
	store := table.NewStore()
	store.Set(table.New([]*table.Route{route}))
	p := proxy.New(proxy.Config{Store: store, Breakers: breaker.New(breaker.Options{}), Admission: admission.New(admission.Options{}),
		Metrics: telemetry.NewProxy(prometheus.NewRegistry()), WriteTimeout: writeTimeout,
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(func() {
		p.Close()
		s.Close()
	})
	return p.Handler().ServeHTTP
}

// callers are the ways in which a caller can speak to the data port.
var callers = map[string]struct {
	tls      bool
	protocol func(*http.Protocols)
}{
	"HTTP/1.1":          {false, http1},
	"HTTP/2":            {false, h2c},
	"HTTP/1.1 over TLS": {true, http1},
	"HTTP/2 over TLS":   {true, func(p *http.Protocols) { p.SetHTTP2(true) }},
}

// F4: a stream that lasts many times longer than any limit of the whole chain, and is seen as it comes.
func TestNoLimitOfTheChainCoversAStream(t *testing.T) {
	const limit, events = 300 * time.Millisecond, 5
	request := `{"model":"m","stream":true}`
	bodies := map[string]func() (body io.Reader, coding string){
		"plain":   func() (io.Reader, string) { return strings.NewReader(request), "" },
		"chunked": func() (io.Reader, string) { return io.MultiReader(strings.NewReader(request)), "identity" },
		"gzip": func() (io.Reader, string) {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = io.WriteString(z, request)
			_ = z.Close()
			return &b, "gzip"
		},
		"zstd": func() (io.Reader, string) {
			z, _ := zstd.NewWriter(nil)
			return bytes.NewReader(z.EncodeAll([]byte(request), nil)), "zstd"
		},
	}
	for way, caller := range callers {
		for form, body := range bodies {
			t.Run(way+", "+form, func(t *testing.T) {
				t.Parallel()
				more := make(chan struct{})
				handler := pipeline(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					for range events {
						fmt.Fprint(w, token)
						_ = http.NewResponseController(w).Flush()
						select {
						case <-more:
						case <-r.Context().Done():
							return
						}
					}
					fmt.Fprint(w, finish)
				}, limit)
				cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
				scheme := "http://"
				s := serve(t, handler, func(c *Config) {
					c.readHeader, c.bodyStall = limit, limit
					if caller.tls {
						writePair(t, cert, key, "x")
						c.TLSCert, c.TLSKey, scheme = cert, key, "https://"
					}
				})
				c := client(t, caller.protocol)
				c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
				content, coding := body()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+s.Addr()+chatPath, content)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Encoding", coding)
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				in := bufio.NewReader(resp.Body)
				for range events { // each is here while the backend waits with the next
					line, err := in.ReadString('\n')
					for err == nil && strings.HasPrefix(line, ":") {
						line, err = in.ReadString('\n')
					}
					if blank, _ := in.ReadString('\n'); err != nil || line+blank != token {
						t.Fatalf("%d %q, %v", resp.StatusCode, line, err)
					}
					wait(t.Context(), limit)
					more <- struct{}{}
				}
				if rest, err := io.ReadAll(in); err != nil || string(rest) != finish {
					t.Errorf("the rest is %q, %v", rest, err)
				}
			})
		}
	}
}

// F3: callers that have not heard of the end yet are served until the listener closes, on new and on kept connections.
func TestNobodyIsRefusedBeforeTheListenerCloses(t *testing.T) {
	handler := pipeline(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, whole)
	}, time.Minute)
	drained, delay := make(chan struct{}), make(chan time.Time)
	s := serve(t, handler, func(c *Config) {
		c.DrainDelay, c.DrainTimeout = time.Second, time.Hour
		c.OnDrain = func() { close(drained) }
		c.after = func(time.Duration) <-chan time.Time { return delay }
	})
	const before, after = 5, 20
	var warm, served sync.WaitGroup
	for _, protocol := range []func(*http.Protocols){http1, h2c} {
		for _, fresh := range []bool{false, true} {
			for range 2 {
				c := client(t, protocol)
				c.Transport.(*http.Transport).DisableKeepAlives = fresh
				call := func() {
					resp, err := c.Post("http://"+s.Addr()+chatPath, "application/json", strings.NewReader(`{"model":"m"}`))
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if body, err := io.ReadAll(resp.Body); err != nil || string(body) != whole {
						t.Errorf("%d %q, %v", resp.StatusCode, body, err)
					}
				}
				warm.Add(1)
				served.Go(func() {
					for range before {
						call()
					}
					warm.Done()
					for draining := false; !draining; { // without a pause, over the moment of the signal
						call()
						select {
						case <-drained:
							draining = true
						default:
						}
					}
					for range after {
						call()
					}
				})
			}
		}
	}
	warm.Wait()
	s.stop()
	served.Wait()
	close(delay)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}
