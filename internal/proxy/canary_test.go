package proxy_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

// The canaries: each is a kind of thing that must not get out, and no one else's text holds it.
const (
	canaryPrompt     = "canary-prompt"
	canaryAnswer     = "canary-answer"        // anything that a backend says
	canaryCaller     = "canary-caller-key"    // the caller's credential
	canaryCredential = "canary-backend-key"   // each backend's credential, followed by its name
	canaryDeclared   = "canary-declared"      // a header that a route declares
	canaryHost       = "canary-host.invalid"  // a backend's host
	canaryLinkLocal  = "169.254.77.77"        // another
	canaryHeader     = "canary-caller-header" // a header of the caller
	canaryQuery      = "canary-query"         // the query of the caller's URL
	canaryPath       = "canary-path"          // a path that the caller invents
	canaryModel      = "canary-model"         // a model that the caller invents
	canaryTLS        = "canary-tls-material"  // a CA bundle or client key
	canaryFault      = "canary-panic"         // a panic's value
	canaryReason     = "canary-pin-reason"    // why somebody pinned the route
	loopback         = "127.0.0.1"            // the scripted backends' host, and the caller's
)

// forCaller are the canaries that no caller may see in an error; what its own request says is no secret from it, and what
// a backend says about a rejected request is for it.
var forCaller = []string{canaryCredential, canaryDeclared, canaryHost, canaryLinkLocal, canaryTLS, canaryFault, canaryReason, canaryCaller, canaryHeader, loopback}

// forAll are those that nothing else may show: logs, metrics, spans, reports.
var forAll = append([]string{canaryPrompt, canaryAnswer, canaryQuery, canaryPath, canaryModel}, forCaller...)

// aviary is what came out of one scenario.
type aviary struct {
	*rig
	recorder    *tracetest.SpanRecorder
	transitions syncBuffer
	answers     []answer
}

func newAviary(t *testing.T, route *table.Route, change ...func(*proxy.Config)) *aviary {
	a := &aviary{}
	recorder, tracing := traced()
	a.recorder = recorder
	a.rig = newRig(t, route, append(change, tracing, func(cfg *proxy.Config) {
		cfg.Breakers.OnTransition(func(tr breaker.Transition) { fmt.Fprintf(&a.transitions, "%+v\n", tr) })
	})...)
	return a
}

// outputs are all texts that leave the proxy apart from answers.
func (a *aviary) outputs() map[string]string {
	a.t.Helper()
	families, err := a.metrics.Gather()
	if err != nil {
		a.t.Fatal(err)
	}
	var metrics bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&metrics, f); err != nil {
			a.t.Fatal(err)
		}
	}
	var spans strings.Builder
	for _, span := range a.recorder.Ended() {
		spans.WriteString(everythingOf(span))
	}
	return map[string]string{"logs": a.log.String(), "metrics": metrics.String(), "spans": spans.String(),
		"reports": fmt.Sprintf("%+v", a.breakers.Records()), "transitions": a.transitions.String()}
}

// everythingOf is all that an exporter could send of a span.
func everythingOf(s sdktrace.ReadOnlySpan) string {
	return fmt.Sprintf("%s %v %v %+v %+v %+v %v\n", s.Name(), s.Attributes(), s.Events(), s.Links(), s.Status(), s.Resource(), s.InstrumentationScope())
}

// settled waits until each request of the scenario is recorded: the caller's end of it comes earlier.
func (a *aviary) settled(requests int) {
	a.t.Helper()
	waitFor(a.t, func() bool {
		roots := 0
		for _, span := range a.recorder.Ended() {
			if !span.Parent().IsValid() {
				roots++
			}
		}
		return roots >= requests
	})
}

func (a *aviary) search(upstreams []*upstream) {
	a.t.Helper()
	for where, text := range a.outputs() {
		report(a.t, where, text, forAll)
	}
	for _, got := range a.answers {
		header := fmt.Sprint(got.header)
		report(a.t, "an answer's header", header, forCaller)
		for line := range strings.SplitSeq(got.body, "\n") {
			switch {
			case got.status == http.StatusOK && !strings.HasPrefix(line, ":") && !strings.Contains(line, `"error"`): // the answer itself
			case strings.Contains(line, "upstream_status"): // the backend's own words about a rejected request
				report(a.t, "a rejection", line, forCaller)
			default:
				report(a.t, "an error or a comment", line, append([]string{canaryPrompt, canaryAnswer, canaryQuery}, forCaller...))
			}
		}
	}
	for i, u := range upstreams {
		name := string(rune('a' + i))
		for _, r := range u.requests() {
			seen := fmt.Sprint(r.header, r.target)
			report(a.t, "backend "+name, strings.ReplaceAll(seen, canaryCredential+"-"+name, ""), []string{canaryCaller, canaryCredential, canaryQuery})
		}
	}
}

func report(t *testing.T, where, text string, canaries []string) {
	t.Helper()
	for _, canary := range canaries {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s: %s got out: ...%s...", where, canary, text[max(0, at-120):min(len(text), at+80)])
		}
	}
}

// ask sends what a caller sends, full of canaries.
func (a *aviary) ask(ctx context.Context, method, path string, body io.Reader, header ...string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.server.URL+path, body)
	if err != nil {
		a.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + canaryCaller, "X-Api-Key": canaryCaller, "Cookie": "session=" + canaryCaller,
		"X-Custom": canaryHeader, "User-Agent": canaryHeader, "X-Request-Id": "<" + canaryHeader + ">", "Referer": canaryHeader, "Traceparent": canaryHeader} {
		req.Header.Set(name, value)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			a.t.Error(err)
		}
		return
	}
	got := finish(resp)
	got.header.Del("X-Backend-Says") // a backend's header is for the caller
	a.answers = append(a.answers, got)
}

// probe asks the first backend as its breaker would, and tells the breaker.
func (a *aviary) probe() {
	ctx, cancel := context.WithTimeout(a.t.Context(), 50*time.Millisecond)
	defer cancel()
	fmt.Fprintf(&a.transitions, "%+v\n", a.rig.proxy.Probe(ctx, breaker.ProbeRequest{Backend: &a.route.Chain[0], Endpoint: chatPath}))
}

const canaryAsk = chatPath + "?key=" + canaryQuery

func canaryBody(stream bool) string {
	return fmt.Sprintf(`{"model":"ns/m","stream":%t,"user":"%s","messages":[{"role":"user","content":"%s"}]}`, stream, canaryPrompt, canaryPrompt)
}

// canaryRoute gives each backend secrets of its own, and the route pins that change nothing about the order.
func canaryRoute(backends ...*upstream) *table.Route {
	r := newRoute(backends...)
	for i := range r.Chain {
		b := &r.Chain[i]
		b.Credential = &table.Credential{Header: "Authorization", Value: "Bearer " + canaryCredential + "-" + b.Name}
		b.Headers = []table.Header{{Name: "X-Declared", Value: canaryDeclared}}
		b.Query = "version=" + canaryDeclared
		b.Failure.Threshold, b.Saturation.SlowAfter, b.Saturation.NonStreamingSlowAfter = 1, 200*time.Millisecond, 200*time.Millisecond
	}
	for _, mode := range []table.PinMode{table.PinPrefer, table.PinAvoid} {
		target := r.Chain[0].Name
		if mode == table.PinAvoid {
			target = r.Chain[len(r.Chain)-1].Name
		}
		r.Pins = append(r.Pins, table.Pin{Name: "game-night", Backend: target, Mode: mode, ExpiresAt: time.Now().Add(time.Hour), Reason: canaryReason})
	}
	r.Timeouts.Idle = 100 * time.Millisecond
	r.Heartbeat.CommitAfter, r.Heartbeat.Interval = 5*time.Millisecond, 5*time.Millisecond
	return r
}

// canaryWhole is a good answer.
var canaryWhole = strings.Replace(whole, `"hi"`, `"`+canaryAnswer+`"`, 1)

// misdeeds are the ways in which a first backend can fail, all with canaries in what it says.
func misdeeds() map[string]func(n int, w *wire) {
	says := func(pieces ...string) func(int, *wire) { return func(_ int, w *wire) { w.send(pieces...) } }
	fault := `{"error":{"message":"` + canaryAnswer + `","type":"` + canaryAnswer + `","code":"` + canaryAnswer + `","param":"` + canaryAnswer + `"}}`
	header := "X-Backend-Says: " + canaryAnswer + "\r\nWWW-Authenticate: " + canaryAnswer + "\r\n"
	all := map[string]func(int, *wire){
		"silent":                     func(_ int, w *wire) { w.silence() },
		"silent after the header":    func(_ int, w *wire) { w.send(sseHead, ": "+canaryAnswer+"\n\n"); w.silence() },
		"reset":                      func(_ int, w *wire) { w.reset() },
		"no HTTP":                    says(canaryAnswer + " " + canaryAnswer + "\r\n\r\n"),
		"a header line that is none": says("HTTP/1.1 200 OK\r\n" + canaryAnswer + " " + canaryAnswer + "\r\n\r\n"),
		"a length that is none":      says("HTTP/1.1 200 OK\r\nContent-Length: " + canaryAnswer + "\r\n\r\n"),
		"chunks that are none":       says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canaryAnswer + "\r\n"),
		"an encoding that is none":   says(status(200, "Content-Encoding: "+canaryAnswer+"\r\n", canaryWhole)),
		"a damaged encoding":         says(status(200, "Content-Encoding: gzip\r\n", canaryAnswer)),
		"a redirect":                 says(status(302, "Location: https://"+canaryHost+"/"+canaryAnswer+"\r\n", canaryAnswer)),
		"a page":                     says(status(200, header, "<html>"+canaryAnswer+"</html>")),
		"an error with 200":          says(status(200, header, fault)),
		"JSON that breaks off":       says(status(200, header, canaryWhole[:len(canaryWhole)-20])),
		"an error as first event":    says(sseHead, "data: "+fault+"\n\n"),
		"an error after a token":     says(sseHead, c(canaryAnswer), "event: error\ndata: "+fault+"\n\n"),
		"an event that is no JSON":   says(sseHead, "data: {"+canaryAnswer+"\n\n"),
		"a cut after a token":        says(sseHead, c(canaryAnswer)),
		"silence after a token":      func(_ int, w *wire) { w.send(sseHead, c(canaryAnswer)); w.silence() },
		"a retry that is none":       says(status(429, "Retry-After: "+canaryAnswer+"\r\n", fault)),
	}
	for _, code := range []int{400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529, 599} {
		all[fmt.Sprintf("status %d", code)] = says(status(code, header, fault))
	}
	all["too long"] = says(status(400, header, strings.Replace(fault, `"code":"`+canaryAnswer, `"code":"context_length_exceeded`, 1)))
	return all
}

func TestNothingOfABackendsMisdeedGetsOut(t *testing.T) {
	for name, script := range misdeeds() {
		t.Run(name, func(t *testing.T) {
			bad, good := newUpstream(t, script), says(t, status(200, "X-Backend-Says: "+canaryAnswer+"\r\n", canaryWhole))
			for _, chain := range [][]*upstream{{bad}, {bad, good}} {
				for _, stream := range []bool{false, true} {
					a := newAviary(t, canaryRoute(chain...))
					a.ask(t.Context(), http.MethodPost, canaryAsk, strings.NewReader(canaryBody(stream)))
					a.probe()
					a.settled(1)
					a.search(chain)
				}
			}
		})
	}
}

func TestNothingOfABackendThatIsNotReachedGetsOut(t *testing.T) {
	nobody := closedPort(t)
	plain := says(t, status(200, "", canaryWhole))
	cases := map[string]func(b *table.Backend){
		"refused":                      func(b *table.Backend) { b.BaseURL = nobody },
		"no such host":                 func(b *table.Backend) { b.BaseURL = "http://" + canaryHost },
		"an address that is forbidden": func(b *table.Backend) { b.BaseURL = "http://" + canaryLinkLocal },
		"no TLS there":                 func(b *table.Backend) { b.BaseURL = strings.Replace(plain.url(), "http", "https", 1) },
		"a URL that is none":           func(b *table.Backend) { b.BaseURL = "http://" + canaryHost + ":" + canaryPath + "/%zz" },
		"a CA that is none":            func(b *table.Backend) { b.TLS = &table.TLS{CA: canaryTLS} },
		"a client key that is none":    func(b *table.Backend) { b.TLS = &table.TLS{ClientCert: canaryTLS, ClientKey: canaryTLS} },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			route := canaryRoute(plain)
			change(&route.Chain[0])
			a := newAviary(t, route)
			for _, stream := range []bool{false, true} {
				a.ask(t.Context(), http.MethodPost, canaryAsk, strings.NewReader(canaryBody(stream)))
			}
			a.probe()
			a.settled(2)
			if a.answers[0].status < 500 {
				t.Errorf("status = %d", a.answers[0].status)
			}
			a.search(nil)
		})
	}
}

func TestNothingOfARequestGetsOut(t *testing.T) {
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zip, canaryBody(false))
	_ = zip.Close()
	good := func(t *testing.T) *upstream { return says(t, status(200, "", canaryWhole)) }
	body := canaryBody(false)
	cases := map[string]struct {
		method, path, body string
		header             []string
		change             func(*proxy.Config)
	}{
		"answered":                     {body: body},
		"answered by a stream":         {body: canaryBody(true)},
		"compressed":                   {body: zipped.String(), header: []string{"Content-Encoding", "gzip"}},
		"damaged":                      {body: zipped.String()[:20] + canaryPrompt, header: []string{"Content-Encoding", "gzip"}},
		"of an unknown encoding":       {body: body, header: []string{"Content-Encoding", canaryHeader}},
		"no JSON":                      {body: `{"model":"ns/m",` + canaryPrompt},
		"more than JSON":               {body: body + canaryPrompt},
		"of two models":                {body: `{"model":"ns/m","model":"` + canaryModel + `"}`},
		"of a model that is none":      {body: `{"model":{"` + canaryPrompt + `":1}}`},
		"of an unknown model":          {body: `{"model":"` + canaryModel + `","messages":"` + canaryPrompt + `"}`},
		"too large":                    {body: strings.Repeat(canaryPrompt, 1000), change: func(c *proxy.Config) { c.MaxBody = 100 }},
		"for which there is no room":   {body: body, change: func(c *proxy.Config) { c.BodyBudget = 1 }},
		"with a deadline that is none": {body: body, header: []string{"X-Request-Timeout-Ms", canaryHeader}},
		"for a path that is none":      {path: "/v1/" + canaryPath + "?key=" + canaryQuery, body: body},
		"for a model's page":           {method: http.MethodGet, path: "/v1/models/" + canaryModel},
		"for a route's readiness":      {method: http.MethodGet, path: "/readyz/" + canaryPath + "/" + canaryModel},
		"by a method that is none":     {method: "CANARY-PATH", body: body},
		"that is not allowed": {body: body, change: func(c *proxy.Config) {
			c.Authorize = authorizer(func() *openai.Error { return &openai.Error{Code: openai.CodeForbidden, Message: "no"} })
		}},
		"that makes us panic": {body: body, change: func(c *proxy.Config) {
			c.Authorize = authorizer(func() *openai.Error { panic(errors.New(canaryFault)) })
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := good(t)
			var change []func(*proxy.Config)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			a := newAviary(t, canaryRoute(u), change...)
			method, path := tc.method, tc.path
			if method == "" {
				method = http.MethodPost
			}
			if path == "" {
				path = canaryAsk
			}
			a.ask(t.Context(), method, path, strings.NewReader(tc.body), tc.header...)
			if method == http.MethodPost {
				a.settled(1)
			}
			a.search([]*upstream{u})
		})
	}
}

func TestNothingOfACallerThatLeavesGetsOut(t *testing.T) {
	u := newUpstream(t, func(_ int, w *wire) { w.send(sseHead, c(canaryAnswer)); w.silence() })
	route := canaryRoute(u)
	route.Timeouts.Idle = time.Minute
	a := newAviary(t, route)
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	a.ask(ctx, http.MethodPost, canaryAsk, strings.NewReader(canaryBody(true)))
	a.settled(1)
	a.search([]*upstream{u})
}
