package proxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

const (
	hotBody  = `{"model":"ns/m","stream":true,"messages":[{"role":"user","content":"hello"}],"temperature":0.5}`
	hotChunk = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"token"},"finish_reason":null}]}` + "\n\n"
	hotEnd   = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + sse.Done
)

// hotProxy serves one route of three backends whose model is rewritten both ways.
func hotProxy(b *testing.B) *Proxy {
	route := &table.Route{Namespace: "ns", Name: "m", Model: "ns/m", ResponseModel: table.ModelLogical,
		Heartbeat: table.Heartbeat{CommitAfter: time.Second, Interval: 10 * time.Second}, Timeouts: table.Timeouts{Idle: 2 * time.Minute}}
	for _, name := range []string{"a", "b", "c"} {
		route.Chain = append(route.Chain, table.Backend{ID: table.BackendID(name), Name: name, BaseURL: "http://127.0.0.1:9/v1", Model: "physical",
			Failure: table.Failure{Threshold: 5, Cooldown: time.Minute}, Saturation: table.Saturation{Threshold: 2, Cooldown: time.Minute, SlowAfter: time.Minute}})
	}
	store := table.NewStore()
	store.Set(table.New([]*table.Route{route}))
	p := New(Config{Store: store, Breakers: breaker.New(breaker.Options{}), Admission: admission.New(admission.Options{}),
		Metrics: telemetry.NewProxy(prometheus.NewRegistry())})
	b.Cleanup(p.Close)
	return p
}

// hotExchange is a request whose body is there.
func hotExchange(p *Proxy) *exchange {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/v1/chat/completions", strings.NewReader(hotBody))
	x := &exchange{p: p, r: r, endpoint: openai.ChatCompletions, began: time.Now(), lease: p.memory.requestLease(), body: []byte(hotBody)}
	x.caller.init(&sink{header: http.Header{}}, r, time.Minute, x)
	return x
}

// admitted takes the request to its first backend.
func admitted(b *testing.B, x *exchange) (*table.Backend, *breaker.Permit) {
	for _, stage := range [...]stage{identify, resolve, makePlan} {
		if f := stage(x); f != nil {
			b.Fatal(f.err)
		}
	}
	backend := x.plan.Steps[0].Backend
	permit, ok := x.p.cfg.Breakers.Admit(backend.ID, x.path(), breaker.Normal)
	if !ok {
		b.Fatal("not admitted")
	}
	return backend, permit
}

// sink is a caller that takes everything.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header              { return s.header }
func (s *sink) WriteHeader(int)                  {}
func (s *sink) Write(p []byte) (int, error)      { return len(p), nil }
func (s *sink) FlushError() error                { return nil }
func (s *sink) SetWriteDeadline(time.Time) error { return nil }

// chunked hands out a stream as backends do: one chunk for each read.
type chunked struct{ left int }

func (c *chunked) Read(p []byte) (int, error) {
	switch c.left--; {
	case c.left >= 0:
		return copy(p, hotChunk), nil
	case c.left == -1:
		return copy(p, hotEnd), nil
	}
	return 0, io.EOF
}

// BenchmarkHotPath shows what the hot path's own code allocates, without net/http and the network: for a request the search
// of its body, the plan, the breaker, the splice and the scanner; for a chunk of a stream all from its read to its write.
func BenchmarkHotPath(b *testing.B) {
	p := hotProxy(b)
	b.Run("request", func(b *testing.B) {
		x := hotExchange(p)
		b.ReportAllocs()
		for b.Loop() {
			backend, permit := admitted(b, x)
			body := x.envelope.Splice(x.body, backend.Model)
			if n, err := io.Copy(io.Discard, body.Reader()); n != body.Len() || err != nil {
				b.Fatal(n, err)
			}
			events := sse.NewScanner(0)
			if _, err := events.Fill(&chunked{left: 1}); err != nil {
				b.Fatal(err)
			}
			if _, ok := events.Next(); !ok {
				b.Fatal("no event")
			}
			permit.Done(breaker.Result{Kind: breaker.Success})
		}
	})
	b.Run("chunk", func(b *testing.B) {
		const chunks = 10_000
		var before, after runtime.MemStats
		allocated := uint64(0)
		for b.Loop() {
			b.StopTimer()
			x := hotExchange(p)
			backend, permit := admitted(b, x)
			a := &attempt{x: x, n: 1, backend: backend, permit: permit, began: x.began, series: x.series.Backend(backend.Name)}
			a.up = upstream{waiter: a, lease: p.memory.answerLease(), resp: &http.Response{}}
			a.events = sse.NewScanner(0)
			runtime.ReadMemStats(&before)
			b.StartTimer()
			if o := a.relay(&chunked{left: chunks}, nil); o.Class != Success {
				b.Fatal(o.Cause)
			}
			b.StopTimer()
			runtime.ReadMemStats(&after)
			allocated += after.Mallocs - before.Mallocs
			permit.Done(breaker.Result{Kind: breaker.Success})
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
		b.ReportMetric(float64(allocated)/float64(b.N*chunks), "allocs/chunk")
	})
}
