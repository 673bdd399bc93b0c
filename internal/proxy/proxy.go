package proxy

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// Words of the label "endpoint" for requests that no pipeline serves.
const (
	unknownEndpoint     = "unknown"
	informationEndpoint = "information" // health and readiness; what is no mistake there is not counted
)

// Proxy serves the data port. It is safe for concurrent use; make one with New. It implements breaker.Prober.
type Proxy struct {
	cfg        Config
	transports transports
	memory     memory
	unpacker   func() (*zstd.Decoder, error) // of bodies that are compressed with zstd
	userAgent  []string
	background sync.WaitGroup // requests to backends that may outlive their caller's, briefly
}

// New returns a proxy and subscribes it, and all that it was given, to the store's tables.
func New(cfg Config) *Proxy {
	cfg.setDefaults()
	p := &Proxy{cfg: cfg, userAgent: []string{"spillway/" + cfg.Version}}
	p.transports.guard.allowed = cfg.AllowCIDRs
	p.memory.limit = cfg.BodyBudget
	p.unpacker = sync.OnceValues(func() (*zstd.Decoder, error) { return newUnpacker(cfg.MaxBody) })
	cfg.Breakers.OnTransition(func(t breaker.Transition) {
		for _, name := range t.Names {
			cfg.Metrics.Transition(t.Namespace, name, string(t.To), string(t.Reason))
		}
	})
	cfg.Store.Prepare(p.apply)
	cfg.Store.OnSwap(p.retain)
	return p
}

// apply makes what judges requests follow a new table, before a request may load it.
func (p *Proxy) apply(t *table.Table) {
	p.cfg.Breakers.Apply(t)
	p.cfg.Admission.Apply(t)
}

// retain drops what no request of a new table asks for. No request waits for that.
func (p *Proxy) retain(t *table.Table) {
	p.cfg.Metrics.Retain(t)
	p.transports.retain(t)
}

// Close waits for what outlives its request (connections that are read to their end) and closes idle connections. Call
// it after the server has stopped and after breaker.Registry.Run has returned.
func (p *Proxy) Close() {
	p.background.Wait()
	p.transports.close()
}

// Handler serves the data port: the routed endpoints, the model list, health and readiness. Paths are matched as they
// come, never cleaned or redirected: a caller's path chooses an endpoint and nothing else.
func (p *Proxy) Handler() http.Handler { return http.HandlerFunc(p.handle) }

func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if ep, ok := openai.EndpointOf(path); ok {
		if p.allow(w, r, ep.String(), http.MethodPost) {
			p.serve(w, r, ep, pipeline[:])
		}
		return
	}
	if stages := modelStages(path); stages != nil {
		if p.allow(w, r, modelsEndpoint, http.MethodGet, http.MethodHead) {
			p.serve(w, r, 0, stages)
		}
		return
	}
	answer := p.healthHandler(path)
	if answer == nil {
		p.refuse(w, r, unknownEndpoint, &openai.Error{Code: openai.CodeInvalidRequest, Status: http.StatusNotFound,
			Message: "there is nothing at this path; see /v1/models and /v1/chat/completions"})
		return
	}
	if p.allow(w, r, informationEndpoint, http.MethodGet, http.MethodHead) {
		p.limitWriting(w)
		answer(w, r)
	}
}

// healthHandler returns what answers a GET, nil for an unknown path.
func (p *Proxy) healthHandler(path string) http.HandlerFunc {
	switch {
	case path == "/healthz":
		return func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") }
	case path == "/readyz":
		return p.ready
	case strings.HasPrefix(path, "/readyz/"):
		return p.routeReady
	}
	return nil
}

func (p *Proxy) allow(w http.ResponseWriter, r *http.Request, endpoint string, methods ...string) bool {
	if slices.Contains(methods, r.Method) {
		return true
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	p.refuse(w, r, endpoint, &openai.Error{Code: openai.CodeInvalidRequest, Status: http.StatusMethodNotAllowed,
		Message: "this path takes " + strings.Join(methods, " or ") + " only"})
	return false
}

// limitWriting sets one deadline for an answer that is written at once, in place of the one that the connection's last
// answer has left.
func (p *Proxy) limitWriting(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.cfg.WriteTimeout))
}

// refuse answers and records a request that never enters the pipeline.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, endpoint string, e *openai.Error) {
	span := p.cfg.Tracer.Request(r, "", time.Now())
	id := requestID(r.Header)
	w.Header().Set(headerRequestID, id)
	w.Header().Set("X-Should-Retry", "false")
	p.limitWriting(w)
	code := openai.WriteError(w, e)
	p.cfg.Metrics.Route(nil).Request(endpoint, code)
	line := telemetry.Access{RequestID: id, Endpoint: endpoint, Code: code, Error: string(e.Code), TraceID: span.TraceID(),
		BytesOut: int64(len(e.AppendJSON(nil)))}
	p.cfg.AccessLog.Write(p.cfg.Now(), &line)
	span.End(time.Now(), "", &line)
}
