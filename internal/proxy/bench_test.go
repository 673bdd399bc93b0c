package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// benchmarkThrough sends the body through handler over real sockets and reads each answer to its end.
func benchmarkThrough(b *testing.B, handler http.Handler, body string) {
	front := httptest.NewServer(handler)
	defer front.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		resp, err := client.Post(front.URL+chatPath, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil || n == 0 {
			b.Fatal(n, err)
		}
		_ = resp.Body.Close()
	}
}

func benchProxy(b *testing.B, backend string) http.Handler {
	route := &table.Route{Namespace: "ns", Name: "m", Model: "ns/m", ResponseModel: table.ModelLogical,
		Heartbeat: table.Heartbeat{CommitAfter: 1e9, Interval: 10e9}, Timeouts: table.Timeouts{Idle: 120e9, Connect: 5e9},
		Chain: []table.Backend{{ID: "a", Name: "a", BaseURL: backend + "/v1", Model: "physical",
			Failure: table.Failure{Threshold: 5, Cooldown: 30e9}, Saturation: table.Saturation{Threshold: 2, Cooldown: 900e9, SlowAfter: 30e9, NonStreamingSlowAfter: 600e9}}}}
	store := table.NewStore()
	store.Set(table.New([]*table.Route{route}))
	log := telemetry.NewBufferedWriter(io.Discard)
	p := proxy.New(proxy.Config{Store: store, Breakers: breaker.New(breaker.Options{}), Admission: admission.New(admission.Options{}),
		Metrics: telemetry.NewProxy(prometheus.NewRegistry()), AccessLog: telemetry.NewAccessLog(log),
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	b.Cleanup(func() {
		p.Close()
		_ = log.Close()
	})
	return p.Handler()
}

// BenchmarkRequest compares a whole request through the proxy with one through a bare ReverseProxy that reads the body
// first; client and backend are part of both.
func BenchmarkRequest(b *testing.B) {
	const chunks = 100
	answer := strings.Replace(whole, `"hi"`, `"`+strings.Repeat("x", 800)+`"`, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for range chunks {
			_, _ = io.WriteString(w, c("token"))
			_ = flush.Flush()
		}
		_, _ = io.WriteString(w, fin+done)
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		b.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}
	defer transport.CloseIdleConnections()
	reverse := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	base := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		reverse.ServeHTTP(w, r)
	})
	for _, bc := range []struct{ name, body string }{{"unary", unary}, {"stream of 100 chunks", streamed}} {
		b.Run(bc.name+"/base", func(b *testing.B) { benchmarkThrough(b, base, bc.body) })
		b.Run(bc.name+"/proxy", func(b *testing.B) { benchmarkThrough(b, benchProxy(b, backend.URL), bc.body) })
	}
}

// BenchmarkHandler leaves the network to backends out: what is counted is the pipeline's own work and that of
// http.Transport's caller side.
func BenchmarkHandler(b *testing.B) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
	}))
	defer backend.Close()
	handler := benchProxy(b, backend.URL)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, chatPath, strings.NewReader(unary))
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
}
