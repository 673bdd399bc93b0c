package proxy_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

// told is the part of an error that the outcome table settles.
type told struct {
	Status     int
	Code       string
	RetryAfter string
	Retry      string // X-Should-Retry
}

func toldBy(t *testing.T, a answer) told {
	t.Helper()
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("not an error envelope: %q", a.body)
	}
	if body.Error.Message == "" || strings.Contains(a.body, "127.0.0.1") {
		t.Errorf("an error without words, or one that names a host: %s", a.body)
	}
	return told{a.status, body.Error.Code, a.header.Get("Retry-After"), a.header.Get("X-Should-Retry")}
}

// learned is what a breaker knows of the backend after one attempt.
type learned struct {
	State                 breaker.State
	Reason                breaker.Reason
	Saturations, Failures int
	Pair                  bool // passed over for the endpoint alone
}

func learnedBy(r *breaker.Registry, id table.BackendID) learned {
	for _, rec := range r.Records() {
		if rec.ID == id {
			return learned{rec.State, rec.Reason, rec.Saturations, rec.Failures, len(rec.Endpoints) > 0}
		}
	}
	return learned{State: breaker.Closed}
}

var (
	clean         = learned{State: breaker.Closed}
	failedOnce    = learned{State: breaker.Closed, Failures: 1}
	refused       = learned{State: breaker.Open, Reason: breaker.ReasonRefused}
	unpaid        = learned{State: breaker.Open, Reason: breaker.ReasonQuota}
	misconfigured = learned{State: breaker.Open, Reason: breaker.ReasonMisconfigured}
	pairMarked    = learned{State: breaker.Closed, Pair: true}
)

// reasonAfter is X-Spillway-Reason of the backend that is asked after one that left this behind.
func reasonAfter(l learned) string {
	switch l {
	case clean: // the prompt was too long for it
		return "spilled"
	case refused, unpaid:
		return "saturated"
	}
	return "failed"
}

func TestOutcomesFollowTheTable(t *testing.T) {
	const envelope = `{"error":{"message":"no","type":"t","code":"their_code"}}`
	const tooLong = `{"error":{"message":"too long","code":"context_length_exceeded"}}`
	upstreamError := told{502, "upstream_error", "", ""}
	ours := told{502, "upstream_misconfigured", "", "false"}
	invalid := told{502, "response_validation_failed", "", ""}
	saturated := told{503, "backend_saturated", "60", ""}
	cases := map[string]struct {
		answer string
		next   bool
		learns learned
		want   told
	}{
		"complete answer": {answer: status(200, "", whole), learns: clean},
		"429 with Retry-After": {answer: status(429, "Retry-After: 7\r\n", envelope), next: true, learns: refused,
			want: told{429, "backend_saturated", "7", ""}},
		"429 without": {answer: status(429, "", envelope), next: true, learns: refused, want: told{429, "backend_saturated", "60", ""}},
		"429 for an empty account": {answer: status(429, "Retry-After: 1\r\n", `{"error":{"message":"no","code":"insufficient_quota"}}`), next: true, learns: unpaid,
			want: told{429, "backend_saturated", "1", ""}},
		"529":                        {answer: status(529, "", envelope), next: true, learns: refused, want: saturated},
		"503 with Retry-After":       {answer: status(503, "Retry-After: 9\r\n", envelope), next: true, learns: refused, want: told{503, "backend_saturated", "9", ""}},
		"503 Loading model":          {answer: status(503, "", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`), next: true, learns: refused, want: saturated},
		"503 without words":          {answer: status(503, "", `{}`), next: true, learns: failedOnce, want: upstreamError},
		"500":                        {answer: status(500, "", envelope), next: true, learns: failedOnce, want: upstreamError},
		"502":                        {answer: status(502, "", `<html>bad gateway</html>`), next: true, learns: failedOnce, want: upstreamError},
		"504":                        {answer: status(504, "", envelope), next: true, learns: failedOnce, want: upstreamError},
		"521":                        {answer: status(521, "", ``), next: true, learns: failedOnce, want: upstreamError},
		"300":                        {answer: status(300, "", envelope), next: true, learns: misconfigured, want: ours},
		"299 with an answer":         {answer: status(299, "", whole), learns: clean},
		"101":                        {answer: "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", next: true, learns: failedOnce, want: upstreamError},
		"408":                        {answer: status(408, "", envelope), next: true, learns: failedOnce, want: upstreamError},
		"425":                        {answer: status(425, "", envelope), next: true, learns: failedOnce, want: upstreamError},
		"499 from the backend":       {answer: status(499, "", envelope), next: true, learns: failedOnce, want: upstreamError},
		"closed without an answer":   {answer: "", next: true, learns: failedOnce, want: upstreamError},
		"no HTTP":                    {answer: "SSH-2.0-OpenSSH\r\n", next: true, learns: failedOnce, want: upstreamError},
		"JSON error with 200":        {answer: status(200, "", `{"error":{"message":"boom","code":"x"}}`), next: true, learns: failedOnce, want: invalid},
		"HTML with 200":              {answer: status(200, "", `<!DOCTYPE html><title>verify</title>`), next: true, learns: failedOnce, want: invalid},
		"empty choices":              {answer: status(200, "", `{"choices":[]}`), next: true, learns: failedOnce, want: invalid},
		"null choices":               {answer: status(200, "", `{"choices":null}`), next: true, learns: failedOnce, want: invalid},
		"null error beside choices":  {answer: status(200, "", strings.Replace(whole, "{", `{"error":null,`, 1)), learns: clean},
		"empty body":                 {answer: status(200, "", ""), next: true, learns: failedOnce, want: invalid},
		"body cut in the middle":     {answer: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + whole[:40], next: true, learns: failedOnce, want: invalid},
		"an unknown content coding":  {answer: status(200, "Content-Encoding: br\r\n", whole), next: true, learns: failedOnce, want: invalid},
		"400":                        {answer: status(400, "", envelope), learns: clean, want: told{400, "their_code", "", "false"}},
		"400 that cannot be decoded": {answer: status(400, "Content-Encoding: br\r\n", envelope), learns: clean, want: told{400, "upstream_request_rejected", "", "false"}},
		"a context too long in a 200, said to be a fault": {answer: status(200, "", strings.Replace(tooLong, "{", `{"status":500,`, 2)), next: true, learns: clean,
			want: told{400, "context_length_exceeded", "", "false"}},
		"409":                        {answer: status(409, "", envelope), learns: clean, want: told{409, "their_code", "", "false"}},
		"413":                        {answer: status(413, "", envelope), learns: clean, want: told{413, "their_code", "", "false"}},
		"415":                        {answer: status(415, "", envelope), learns: clean, want: told{415, "their_code", "", "false"}},
		"422 with a body of its own": {answer: status(422, "", `{"detail":"no"}`), learns: clean, want: told{422, "upstream_request_rejected", "", "false"}},
		"418":                        {answer: status(418, "", envelope), learns: clean, want: told{418, "their_code", "", "false"}},
		"context length exceeded":    {answer: status(400, "", tooLong), next: true, learns: clean, want: told{400, "context_length_exceeded", "", "false"}},
		"401":                        {answer: status(401, "", envelope), next: true, learns: misconfigured, want: ours},
		"402":                        {answer: status(402, "", envelope), next: true, learns: misconfigured, want: ours},
		"301":                        {answer: status(301, "Location: http://127.0.0.1:9/x\r\n", ""), next: true, learns: misconfigured, want: ours},
		"307":                        {answer: status(307, "Location: http://127.0.0.1:9/x\r\n", ""), next: true, learns: misconfigured, want: ours},
		"403":                        {answer: status(403, "", envelope), next: true, learns: failedOnce, want: ours},
		"404":                        {answer: status(404, "", envelope), next: true, learns: pairMarked, want: ours},
		"405":                        {answer: status(405, "", envelope), next: true, learns: pairMarked, want: ours},
		"501":                        {answer: status(501, "", envelope), next: true, learns: pairMarked, want: ours},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := says(t, tc.answer), says(t, status(200, "", whole))
			r := newRig(t, newRoute(a, b))
			got := r.post(unary)
			if asked := b.count() == 1; asked != tc.next {
				t.Errorf("next backend asked: %v, want %v", asked, tc.next)
			}
			if reason := got.header.Get("X-Spillway-Reason"); tc.next && reason != reasonAfter(tc.learns) {
				t.Errorf("the next backend's reason is %q, want %q", reason, reasonAfter(tc.learns))
			}
			if tc.next && (got.status != 200 || got.body != whole) {
				t.Errorf("the next backend's answer did not arrive: %d %q", got.status, got.body)
			}
			if diff := cmp.Diff(tc.learns, learnedBy(r.breakers, "a")); diff != "" {
				t.Errorf("breaker (-want +got):\n%s", diff)
			}
			if tc.want == (told{}) {
				return
			}
			alone := newRig(t, newRoute(says(t, tc.answer)))
			if diff := cmp.Diff(tc.want, toldBy(t, alone.post(unary))); diff != "" {
				t.Errorf("as the last one (-want +got):\n%s", diff)
			}
			stream := newRig(t, newRoute(says(t, tc.answer)))
			if diff := cmp.Diff(tc.want, toldBy(t, stream.post(streamed))); diff != "" {
				t.Errorf("as the last one, asked for a stream (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStreamsThatNeverBeginAreFailedAttempts(t *testing.T) {
	cases := map[string]struct {
		answer []string
		learns learned
		want   told
	}{
		"an error event first, with a status": {
			answer: []string{sseHead, role, "data: {\"error\":{\"message\":\"x\",\"code\":429}}\n\n"},
			learns: refused, want: told{429, "backend_saturated", "60", ""},
		},
		"an error event first, with nothing known": {
			answer: []string{sseHead, "event: error\ndata: {\"error\":{\"message\":\"x\"}}\n\n"},
			learns: failedOnce, want: told{502, "upstream_error", "", ""},
		},
		"an empty stream":              {answer: []string{sseHead}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
		"a text completion, to a chat": {answer: []string{status(200, "", `{"choices":[{"index":0,"text":"x"}]}`)}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
		"DONE alone":                   {answer: []string{sseHead, done}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
		"cut before the first token":   {answer: []string{sseHead, role}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
		"HTML that calls itself SSE":   {answer: []string{sseHead, "<!DOCTYPE html>"}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
		"a string for an error (200)":  {answer: []string{status(200, "", `{"error":"Unexpected endpoint or method. (POST /v1/v1/chat/completions)"}`)}, learns: failedOnce, want: told{502, "response_validation_failed", "", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRoute(says(t, tc.answer...), says(t, sseHead, role, c("b"), fin, done)))
			if got := events(r.post(streamed).body); got != role+c("b")+fin+done {
				t.Errorf("events %q", got)
			}
			if diff := cmp.Diff(tc.learns, learnedBy(r.breakers, "a")); diff != "" {
				t.Errorf("breaker (-want +got):\n%s", diff)
			}
			alone := newRig(t, newRoute(says(t, tc.answer...)))
			if diff := cmp.Diff(tc.want, toldBy(t, alone.post(streamed))); diff != "" {
				t.Errorf("as the last one (-want +got):\n%s", diff)
			}
		})
	}
}

// closedPort is an address that refuses connections. It is that of a connection, so that nobody else comes to listen there.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return "http://" + conn.LocalAddr().String() + "/v1"
}

func TestBackendsThatCannotBeReached(t *testing.T) {
	cases := map[string]struct {
		url    func(t *testing.T) string
		tls    *table.TLS
		change func(*proxy.Config)
		learns learned
		want   told
		cause  string
	}{
		"a URL that cannot be used": {url: func(*testing.T) string { return "http://127.0.0.1:port" }, learns: misconfigured,
			want: told{502, "upstream_misconfigured", "", "false"}, cause: "URL cannot be used"},
		"a CA bundle that holds none": {url: closedPort, tls: &table.TLS{CA: "SECRET"}, learns: misconfigured,
			want: told{502, "upstream_misconfigured", "", "false"}, cause: "CA bundle of the backend holds no certificate"},
		"half a client certificate": {url: closedPort, tls: &table.TLS{ClientKey: "SECRET"}, learns: misconfigured,
			want: told{502, "upstream_misconfigured", "", "false"}, cause: "client certificate of the backend cannot be used"},
		"connection refused": {url: closedPort, learns: failedOnce, want: told{502, "upstream_error", "", ""}, cause: "connection refused"},
		"no such name": {url: func(*testing.T) string { return "http://no-such-name.invalid/v1" }, learns: failedOnce,
			want: told{502, "upstream_error", "", ""}, cause: "name resolution failed"},
		"an address that the dial guard refuses": {url: closedPort, change: func(c *proxy.Config) { c.AllowCIDRs = nil }, learns: misconfigured,
			want: told{502, "upstream_misconfigured", "", "false"}, cause: "not allowed by --allow-cidr"},
		"the same over TLS": {url: func(t *testing.T) string { return strings.Replace(closedPort(t), "http:", "https:", 1) },
			change: func(c *proxy.Config) { c.AllowCIDRs = nil }, learns: misconfigured,
			want: told{502, "upstream_misconfigured", "", "false"}, cause: "not allowed by --allow-cidr"},
		"an allowed range that is another": {url: closedPort, change: func(c *proxy.Config) { c.AllowCIDRs = []netip.Prefix{netip.MustParsePrefix("127.1.0.0/16")} },
			learns: misconfigured, want: told{502, "upstream_misconfigured", "", "false"}, cause: "not allowed by --allow-cidr"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := newRoute(says(t))
			route.Chain[0].BaseURL, route.Chain[0].TLS = tc.url(t), tc.tls
			change := tc.change
			if change == nil {
				change = func(*proxy.Config) {}
			}
			r := newRig(t, route, change)
			if diff := cmp.Diff(tc.want, toldBy(t, r.post(unary))); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.learns, learnedBy(r.breakers, "a")); diff != "" {
				t.Errorf("breaker (-want +got):\n%s", diff)
			}
			if message := r.breakers.View("a", chatPath).Message; tc.learns == misconfigured && !strings.Contains(message, tc.cause) {
				t.Errorf("the breaker says %q, want the cause %q", message, tc.cause)
			}
			if log := r.log.String(); !strings.Contains(log, tc.cause) || strings.Contains(log, "127.0.0.1") || strings.Contains(log, ".invalid") || strings.Contains(log, "SECRET") {
				t.Errorf("log %q, want the cause %q and no host", log, tc.cause)
			}
		})
	}
}

func TestExhaustedChains(t *testing.T) {
	throttled := func(after int) string { return status(429, fmt.Sprintf("Retry-After: %d\r\n", after), `{}`) }
	cases := map[string]struct {
		answers []string
		want    told
		says    string
		tried   string
	}{
		"all throttled: the smallest Retry-After": {answers: []string{throttled(30), throttled(10), status(429, "", `{}`)},
			want: told{429, "backend_saturated", "10", ""}, says: "all backends failed",
			tried: `"attempts":[{"backend":"a","class":"refused"},{"backend":"b","class":"refused"},{"backend":"c","class":"refused"}]`},
		"not all throttled: not the caller's rate": {answers: []string{status(500, "", `{}`), throttled(10)}, want: told{503, "backend_saturated", "10", ""},
			tried: `"attempts":[{"backend":"a","class":"failed"},{"backend":"b","class":"refused"}]`},
		"all down": {answers: []string{status(500, "", `{}`), status(500, "", `{}`)}, want: told{502, "upstream_error", "", ""}, says: "all backends failed"},
		"one down": {answers: []string{status(500, "", `{}`)}, want: told{502, "upstream_error", "", ""}, says: "the backend a failed"},
		"refused without a wish: the time until the first breaker lets somebody through": {answers: []string{status(500, "", `{}`), status(429, "", `{}`)},
			want: told{503, "backend_saturated", "60", ""}},
		"D8 a window too small at last: what the first one ended in": {answers: []string{status(500, "", `{}`), status(400, "", `{"error":{"message":"b","code":"context_length_exceeded"}}`)},
			want: told{502, "upstream_error", "", ""}, says: "all backends failed; the first one, a, failed",
			tried: `"attempts":[{"backend":"a","class":"failed"},{"backend":"b","class":"too_long"}]`},
		"D8 the same behind one that throttles: its caller comes again": {answers: []string{throttled(7), status(400, "", `{"error":{"message":"b","code":"context_length_exceeded"}}`)},
			want: told{429, "backend_saturated", "7", ""}, says: "the first one, a, has no capacity now"},
		"D8 and one that fails behind it": {answers: []string{throttled(7), status(400, "", `{"error":{"message":"b","code":"context_length_exceeded"}}`), status(500, "", `{}`)},
			want: told{503, "backend_saturated", "7", ""}, says: "the first one, a, has no capacity now"},
		"D8 too small at first: that answer": {answers: []string{status(400, "", `{"error":{"message":"a","code":"context_length_exceeded"}}`), status(500, "", `{}`)},
			want: told{400, "context_length_exceeded", "", "false"}, says: `"message":"a"`},
		"all too small: the first such answer": {
			answers: []string{status(400, "", `{"error":{"message":"a","code":"context_length_exceeded"}}`), status(400, "", `{"error":{"message":"b","code":"context_length_exceeded"}}`)},
			want:    told{400, "context_length_exceeded", "", "false"}, says: `"message":"a"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var backends []*upstream
			for _, a := range tc.answers {
				backends = append(backends, says(t, a))
			}
			got := newRig(t, newRoute(backends...)).post(unary)
			if diff := cmp.Diff(tc.want, toldBy(t, got)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if !strings.Contains(got.body, tc.says) || !strings.Contains(got.body, tc.tried) || len(tc.answers) == 1 && strings.Contains(got.body, "all backends") {
				t.Errorf("body %s", got.body)
			}
			for i, b := range backends {
				if b.count() != 1 {
					t.Errorf("backend %d was asked %d times", i, b.count())
				}
			}
		})
	}
}

func TestAllOpen(t *testing.T) {
	route := func(t *testing.T, mode table.WhenAllOpen) (*rig, *upstream) {
		a := newUpstream(t, func(n int, w *wire) {
			if n == 0 {
				w.send(status(429, "Retry-After: 30\r\n", `{}`))
			} else {
				w.send(status(200, "", whole))
			}
		})
		rt := newRoute(a)
		rt.WhenAllOpen = mode
		r := newRig(t, rt)
		r.post(unary)
		return r, a
	}
	t.Run("Reject answers at once with the time to the next probe", func(t *testing.T) {
		r, a := route(t, table.AllOpenReject)
		got := toldBy(t, r.post(unary))
		if got.Status != 503 || got.Code != "backend_saturated" || got.RetryAfter != "30" || a.count() != 1 {
			t.Errorf("error %+v, asked %d times", got, a.count())
		}
	})
	t.Run("Try lets one through, and its success closes", func(t *testing.T) {
		r, a := route(t, table.AllOpenTry)
		if got := r.post(unary); got.status != 200 || got.header.Get("X-Spillway-Reason") != "breaker-open" || a.count() != 2 {
			t.Errorf("answer %+v", got)
		}
		if got := learnedBy(r.breakers, "a"); got.State != breaker.Closed {
			t.Errorf("breaker %+v", got)
		}
	})
}

// Where everything is open a caller is told when the first backend may be asked again, and what is wrong with them.
func TestWaitWhereAllAreLeftAlone(t *testing.T) {
	const minute = 60 * time.Second
	busy := func(d time.Duration) breaker.Result { return breaker.Result{Kind: breaker.Refused, RetryAfter: d} }
	broken := breaker.Result{Kind: breaker.Misconfigured} // for a minute
	cases := map[string]struct {
		knows []breaker.Result // of a, b, ...
		pin   string           // the only backend that is allowed
		want  told
	}{
		"one that failed":              {knows: []breaker.Result{broken}, want: told{503, "upstream_error", "60", ""}},
		"one that is busy":             {knows: []breaker.Result{busy(2 * minute)}, want: told{503, "backend_saturated", "120", ""}},
		"the first is well first":      {knows: []breaker.Result{busy(30 * time.Second), broken}, want: told{503, "backend_saturated", "30", ""}},
		"the last is well first":       {knows: []breaker.Result{broken, busy(30 * time.Second)}, want: told{503, "backend_saturated", "30", ""}},
		"one that a pin keeps it from": {knows: []breaker.Result{broken, busy(30 * time.Second)}, pin: "a", want: told{503, "upstream_error", "60", ""}},
		"one that a pin leaves for it": {knows: []breaker.Result{broken, busy(2 * minute)}, pin: "b", want: told{503, "backend_saturated", "120", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := newRoute(says(t), says(t))
			route.Chain, route.WhenAllOpen = route.Chain[:len(tc.knows)], table.AllOpenReject
			if tc.pin != "" {
				route.Pins = []table.Pin{{Name: "p", Backend: tc.pin, Mode: table.PinOnly, ExpiresAt: time.Now().Add(time.Hour)}}
			}
			r := newRig(t, route)
			for i, result := range tc.knows {
				p, _ := r.breakers.Admit(route.Chain[i].ID, chatPath, breaker.Normal)
				p.Done(result)
			}
			if diff := cmp.Diff(tc.want, toldBy(t, r.post(unary))); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// An attempt is counted by what it ended in, and what is busy once more.
func TestAttemptsAreCountedByTheirOutcome(t *testing.T) {
	for word, answer := range map[string]string{
		"success": status(200, "", whole), "refused": status(429, "", `{}`), "failed": status(500, "", `{}`), "invalid_response": status(200, "", `{}`),
		"rejected": status(422, "", `{}`), "too_long": status(400, "", `{"error":{"code":"context_length_exceeded"}}`), "misconfigured": status(401, "", `{}`),
		"forbidden": status(403, "", `{}`), "unsupported": status(404, "", `{}`), "broken": sseHead + c("x"),
	} {
		t.Run(word, func(t *testing.T) {
			r := newRig(t, newRoute(says(t, answer)))
			body := unary
			if word == "broken" {
				body = streamed
			}
			r.post(body)
			waitFor(t, func() bool { return r.counted("llm_in_flight_requests 0") })
			if !r.counted(`llm_attempts_total{backend="a",logical_model="ns/m",outcome="` + word + `"} 1`) {
				t.Errorf("not counted as %s:\n%s", word, r.exposed())
			}
			if got := r.counted(`llm_backend_saturated_total{backend="a",logical_model="ns/m"} 1`); got != (word == "refused") {
				t.Errorf("counted as saturated: %v", got)
			}
			answered := word == "success" || word == "broken"
			if got := r.counted(`llm_time_to_first_token_seconds_count{backend="a",logical_model="ns/m"} 1`); got != answered {
				t.Errorf("its first token is measured: %v", got)
			}
			if got := r.counted(`llm_request_duration_seconds_count{backend="a",logical_model="ns/m"} 1`); got != answered || strings.Contains(r.exposed(), `backend=""`) {
				t.Errorf("its duration is measured: %v", got)
			}
		})
	}
}

func TestContextWindowsSpillTheRequest(t *testing.T) {
	prompt := `{"model":"ns/m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 8000) + `"}]}`
	tooLong := status(400, "", `{"error":{"message":"too long","code":"context_length_exceeded"}}`)
	t.Run("a declared window that is too small is passed over", func(t *testing.T) {
		a, b, cc := says(t, status(429, "", `{}`)), says(t, tooLong), says(t, status(200, "", whole))
		route := newRoute(a, b, cc)
		route.Chain[0].ContextWindow, route.Chain[1].ContextWindow, route.Chain[2].ContextWindow = 128000, 8000, 128000
		if got := newRig(t, route).post(prompt); got.status != 200 || b.count() != 0 {
			t.Errorf("status %d, the small backend was asked %d times", got.status, b.count())
		}
	})
	t.Run("an answer that says so of one window says so of another of its size", func(t *testing.T) {
		a, b, cc := says(t, tooLong), says(t, tooLong), says(t, status(200, "", whole))
		route := newRoute(a, b, cc)
		route.Chain[0].ContextWindow, route.Chain[1].ContextWindow, route.Chain[2].ContextWindow = 16000, 16000, 16001
		if got := newRig(t, route).post(prompt); got.status != 200 || b.count() != 0 || cc.count() != 1 {
			t.Errorf("status %d, the one of the same size was asked %d times", got.status, b.count())
		}
	})
	t.Run("an answer that says so leads to a larger or unknown window", func(t *testing.T) {
		a, b, cc := says(t, tooLong), says(t, tooLong), says(t, status(200, "", whole))
		route := newRoute(a, b, cc)
		route.Chain[0].ContextWindow, route.Chain[1].ContextWindow = 16000, 12000
		if got := newRig(t, route).post(prompt); got.status != 200 || b.count() != 0 || got.header.Get("X-Spillway-Backend") != "c" || got.header.Get("X-Spillway-Reason") != "spilled" {
			t.Errorf("status %d, header %v, the smaller backend was asked %d times", got.status, got.header, b.count())
		}
	})
}

// Many prompts in one request have a window each, and numbers of tokens are not words: neither is surely larger than a window.
func TestListsAreComparedWithNoWindow(t *testing.T) {
	words, numbers := strings.Repeat(`"some words in a text that fits",`, 100), strings.Repeat("12345,", 900)
	asks := func(path, field, value string, answer string) string {
		a, b := says(t, status(200, "", answer)), says(t, status(200, "", answer))
		route := newRoute(a, b)
		route.Chain[0].ContextWindow = 700
		return newRig(t, route).postTo(path, `{"model":"ns/m","`+field+`": `+value+`}`).header.Get("X-Spillway-Backend")
	}
	text := `{"object":"text_completion","choices":[{"index":0,"text":"x","finish_reason":"stop"}]}`
	embedding := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m"}`
	response := `{"object":"response","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}]}`
	cases := map[string]struct{ path, field, value, answer, want string }{
		"texts to embed":                 {"/v1/embeddings", "input", "[" + words + `""]`, embedding, "a"},
		"tokens to embed":                {"/v1/embeddings", "input", "[" + numbers + "1]", embedding, "a"},
		"one text to embed":              {"/v1/embeddings", "input", `"` + numbers + `"`, embedding, "b"},
		"one that is embedded in base64": {"/v1/embeddings", "encoding_format", `"base64","input":"` + numbers + `"`, embedding, "b"},
		"prompts":                        {"/v1/completions", "prompt", "[" + words + `""]`, text, "a"},
		"one prompt":                     {"/v1/completions", "prompt", `"` + numbers + `"`, text, "b"},
		"the items of a response":        {"/v1/responses", "input", `[{"role":"user","content":"` + numbers + `"}]`, response, "b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := asks(tc.path, tc.field, tc.value, tc.answer); got != tc.want {
				t.Errorf("asked %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRetryAsksTheSameBackendAgain(t *testing.T) {
	cases := map[string]struct {
		first    string
		attempts int
		want     int // requests at a
	}{
		"a 500 is tried again":            {first: status(500, "", `{}`), attempts: 1, want: 2},
		"a closed connection, too":        {first: "", attempts: 1, want: 2},
		"a 408 not":                       {first: status(408, "", `{}`), attempts: 3, want: 1},
		"a 503 that says busy never":      {first: status(503, "Retry-After: 1\r\n", `{}`), attempts: 3, want: 1},
		"an endpoint that is missing":     {first: status(501, "", `{}`), attempts: 3, want: 1},
		"a 429 never":                     {first: status(429, "", `{}`), attempts: 3, want: 1},
		"an answer that is none, neither": {first: status(200, "", `{}`), attempts: 3, want: 1},
		"nothing without retry.attempts":  {first: status(500, "", `{}`), attempts: 0, want: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(n int, w *wire) {
				if n == 0 {
					w.send(tc.first)
				} else {
					w.send(status(200, "", whole))
				}
			})
			route := newRoute(a, says(t, status(200, "", whole)))
			route.Retry = table.Retry{Attempts: tc.attempts, Backoff: time.Millisecond}
			got := newRig(t, route).post(unary)
			if got.status != http.StatusOK || a.count() != tc.want || got.header.Get("X-Spillway-Attempts") != "2" {
				t.Errorf("status %d, a asked %d times (want %d), header %v", got.status, a.count(), tc.want, got.header)
			}
		})
	}
}
