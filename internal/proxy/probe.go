package proxy

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/sse"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// probeConnect bounds dial and TLS handshake of a probe: the default of timeouts.connect, so that it shares connections.
const probeConnect = 5 * time.Second

var _ breaker.Prober = (*Proxy)(nil)

// Probe implements breaker.Prober: it asks a backend for as little as the endpoint's dialect allows, and reads up to the
// first token.
func (p *Proxy) Probe(ctx context.Context, r breaker.ProbeRequest) breaker.Result {
	ep, ok := openai.EndpointOf(r.Endpoint)
	if !ok {
		ep = openai.ChatCompletions
	}
	span := p.cfg.Tracer.Probe(telemetry.ProbeStart{Kind: string(r.Purpose), Backend: r.Backend.Name, Model: r.Backend.Model,
		Path: ep.Path(), Began: time.Now()})
	o := p.probe(ctx, span, r.Backend, ep, "max_tokens")
	if o.Class == Rejected && o.Status == http.StatusBadRequest && ep == openai.ChatCompletions {
		// Newer models take the limit under its new name only.
		o = p.probe(ctx, span, r.Backend, ep, "max_completion_tokens")
	}
	span.End(o.spanEnd(r.Backend))
	return o.evidence()
}

// smallest is the least demanding request of a dialect.
func smallest(ep openai.Endpoint, model, limit string) []byte {
	const word = "ping"
	message := []map[string]string{{"role": "user", "content": word}}
	request := map[string]any{"model": model}
	switch ep {
	case openai.Embeddings:
		request["input"] = word
	case openai.Responses:
		request["input"], request["max_output_tokens"], request["stream"] = word, 16, true
	case openai.Completions:
		request["prompt"], request["max_tokens"], request["stream"] = word, 1, true
	case openai.Messages:
		request["messages"], request["max_tokens"], request["stream"] = message, 1, true
	default:
		request["messages"], request[limit], request["stream"] = message, 1, true
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil // strings and numbers always marshal
	}
	return body
}

// probe sends one request, with the limit under the name that is given, and judges the answer up to its first token. The end
// of ctx is Cancelled.
func (p *Proxy) probe(ctx context.Context, span *telemetry.AttemptSpan, b *table.Backend, ep openai.Endpoint, limit string) Outcome {
	tr, err := p.transports.get(b, probeConnect)
	if err != nil {
		return Outcome{Class: Misconfigured, Cause: err.Error()}
	}
	target, err := targetURL(b, ep)
	if err != nil {
		return Outcome{Class: Misconfigured, Cause: err.Error()}
	}
	content := smallest(ep, b.Model, limit)
	envelope, err := openai.ParseEnvelope(content)
	if err != nil {
		return Outcome{Class: Invalid, Cause: "the probe is no request"}
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": p.userAgent}
	if ep == openai.Messages {
		header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	addOwn(header, b)
	span.Inject(header)
	u := upstream{waiter: prober{ctx}, transport: tr, background: &p.background}
	u.request = func(ctx context.Context) *http.Request {
		return newRequest(ctx, target, header, envelope.Splice(content, b.Model))
	}
	defer u.release(false)
	o := p.firstTokenOf(&u, ep)
	if ctx.Err() != nil {
		return Outcome{Class: Cancelled, Cause: "the probe was stopped"}
	}
	return o
}

// prober is the waiter of a probe, which has nothing to do meanwhile.
type prober struct{ ctx context.Context }

func (w prober) context() context.Context { return w.ctx }
func (w prober) due() time.Time           { return time.Time{} }
func (w prober) wake(time.Time) error     { return w.ctx.Err() }

// firstTokenOf sends the request and judges the answer up to its first token. A fault of ours is no evidence.
func (p *Proxy) firstTokenOf(u *upstream, ep openai.Endpoint) (o Outcome) {
	defer func() {
		if fault := recover(); fault != nil {
			p.reportPanic(fault)
			o = Outcome{Class: Cancelled, Cause: "panic"}
		}
	}()
	if err := u.roundTrip(); err != nil {
		return transportOutcome(err)
	}
	resp := u.resp
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		arrived := time.Now()
		return judgeStatus(resp, u.errorBody(time.Time{}), arrived, false)
	}
	body, closeBody, err := decoder(resp.Header.Values("Content-Encoding"), resp.Body, p.cfg.MaxAnswer)
	if err != nil {
		return unreadable(err)
	}
	defer closeBody()
	prefix, shape, err := sniff(body, make([]byte, readSize), resp.Header)
	if shape == openai.ShapeSSE {
		return judgeEvents(body, prefix, err, ep)
	}
	whole, err := u.readWhole(prefix, err, body, p.cfg.MaxAnswer)
	if err != nil {
		return unreadable(err)
	}
	return outcomeOf(openai.JudgeBody(ep, whole).Answer)
}

// judgeEvents looks for a token in a stream that begins with prefix, read with err.
func judgeEvents(body io.Reader, prefix []byte, err error, ep openai.Endpoint) Outcome {
	events := sse.NewScanner(0)
	events.Feed(prefix)
	for {
		ev, ok := events.Next()
		if !ok && (err != nil || events.Err() != nil) {
			if ev, ok, _ = events.Flush(); !ok { // the last one may lack its blank line
				return Outcome{Class: Invalid, Cause: "a stream without a token"}
			}
		}
		if !ok {
			_, err = events.Fill(body)
			continue
		}
		facts := openai.JudgeEvent(ep, ev.Name, ev.Data)
		switch facts.Kind {
		case openai.Token:
			return Outcome{Class: Success}
		case openai.ErrorEvent:
			return outcomeOf(facts.Answer)
		case openai.DoneEvent:
			return Outcome{Class: Invalid, Cause: "a stream without a token"}
		}
	}
}
