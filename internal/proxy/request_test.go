package proxy_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestBadRequestsMeetNoBackend(t *testing.T) {
	cases := map[string]struct {
		body   string
		header []string
		want   told
		param  string
		says   string
	}{
		"no model":                  {body: `{}`, want: told{400, "invalid_request", "", "false"}, param: "model"},
		"model is a number":         {body: `{"model":123}`, want: told{400, "invalid_request", "", "false"}, param: "model"},
		"model is null":             {body: `{"model":null}`, want: told{400, "invalid_request", "", "false"}, param: "model"},
		"model is empty":            {body: `{"model":""}`, want: told{400, "invalid_request", "", "false"}, param: "model"},
		"two models":                {body: `{"model":"ns/m","model":"b"}`, want: told{400, "invalid_request", "", "false"}, param: "model"},
		"a list":                    {body: `[]`, want: told{400, "invalid_request", "", "false"}},
		"nothing":                   {body: ``, want: told{400, "invalid_request", "", "false"}},
		"two bodies":                {body: `{"model":"ns/m"}{"model":"b"}`, want: told{400, "invalid_request", "", "false"}},
		"truncated":                 {body: `{"model":"ns/m"`, want: told{400, "invalid_request", "", "false"}},
		"invalid UTF-8":             {body: "{\"model\":\"ns/m\",\"x\":\"\xff\"}", want: told{400, "invalid_request", "", "false"}},
		"stream is a string":        {body: `{"model":"ns/m","stream":"true"}`, want: told{400, "invalid_request", "", "false"}, param: "stream"},
		"an unknown model":          {body: `{"model":"ns/other"}`, want: told{404, "model_not_found", "", "false"}, param: "model", says: "ns/other"},
		"a model in another case":   {body: `{"model":"NS/M"}`, want: told{404, "model_not_found", "", "false"}, param: "model"},
		"a coding that is unknown":  {body: `x`, header: []string{"Content-Encoding", "br"}, want: told{415, "unsupported_encoding", "", "false"}},
		"damaged gzip":              {body: `x`, header: []string{"Content-Encoding", "gzip"}, want: told{400, "invalid_request", "", "false"}},
		"damaged zstd":              {body: `xxxxxxxx`, header: []string{"Content-Encoding", "zstd"}, want: told{400, "invalid_request", "", "false"}},
		"a timeout that is none":    {body: unary, header: []string{"X-Request-Timeout-Ms", "soon"}, want: told{400, "invalid_request", "", "false"}, param: "X-Request-Timeout-Ms"},
		"a body over the limit":     {body: `{"model":"` + strings.Repeat("x", 2000) + `"}`, want: told{413, "request_too_large", "", "false"}},
		"a deadline that is past":   {body: unary, header: []string{"X-Request-Deadline-Ms", "1600000000000"}, want: told{504, "request_deadline_exceeded", "", ""}},
		"a route without a backend": {body: `{"model":"ns/empty"}`, want: told{503, "model_unavailable", "", ""}, says: "no usable backend"},
		"an Only on a lost backend": {body: `{"model":"ns/held"}`, want: told{503, "model_unavailable", "", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := says(t, status(200, "", whole))
			r := newRig(t, newRoute(u), func(c *proxy.Config) { c.MaxBody = 1000 })
			held := newRoute(u)
			held.Name, held.Model = "held", "ns/held"
			held.Pins = []table.Pin{{Name: "p", Backend: "left-out", Mode: table.PinOnly, ExpiresAt: time.Now().Add(time.Hour)}}
			r.store.Set(table.New([]*table.Route{r.route, {Namespace: "ns", Name: "empty", Model: "ns/empty"}, held}))
			got := r.post(tc.body, tc.header...)
			if diff := cmp.Diff(tc.want, toldBy(t, got)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if tc.param != "" && !strings.Contains(got.body, `"param":"`+tc.param+`"`) {
				t.Errorf("body %s, want the parameter %q", got.body, tc.param)
			}
			if !strings.Contains(got.body, tc.says) {
				t.Errorf("body %s, want %q in it", got.body, tc.says)
			}
			if u.count() != 0 {
				t.Error("a backend was asked")
			}
			if got.header.Get("X-Request-Id") == "" || got.header.Get("Content-Type") != "application/json" {
				t.Errorf("header %v", got.header)
			}
		})
	}
}

func TestBodiesAreSentByteForByte(t *testing.T) {
	numbers := `"seed":9007199254740993,"n":1.0,"e":1E5,"big":123456789012345678901234567890,"huge":1e400,"s":"\u003c\u2028","z":{"b":1,"a":2},"x_unknown":{"deep":[1]},"stream":null`
	large := `"messages":[{"content":"data:image/png;base64,` + strings.Repeat("QUJD", 1<<20) + `"}]`
	cases := map[string]struct {
		rest   string
		encode func(string) []byte
		header []string
	}{
		"numbers, escapes and unknown fields": {rest: numbers},
		"a large one":                         {rest: large},
		"gzip":                                {rest: numbers, encode: zipped, header: []string{"Content-Encoding", "gzip"}},
		"gzip by its old name":                {rest: numbers, encode: zipped, header: []string{"Content-Encoding", "X-Gzip"}},
		"no coding, by its name":              {rest: numbers, header: []string{"Content-Encoding", "identity"}},
		"zstd":                                {rest: numbers, encode: zstded, header: []string{"Content-Encoding", "zstd"}},
	}
	for name, tc := range cases {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, chunked %v", name, chunked), func(t *testing.T) {
				a, b := says(t, status(500, "", `{}`)), says(t, status(200, "", whole))
				route := newRoute(a, b)
				route.Chain[0].Model, route.Chain[1].Model = "organisation/much-longer-name", "x"
				r := newRig(t, route)
				body := []byte(`{"model": "ns\/m",` + tc.rest + `}`)
				if tc.encode != nil {
					body = tc.encode(string(body))
				}
				var reader io.Reader = bytes.NewReader(body)
				if chunked {
					reader = io.MultiReader(reader)
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/v1/chat/completions", reader)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i+1 < len(tc.header); i += 2 {
					req.Header.Set(tc.header[i], tc.header[i+1])
				}
				resp, err := r.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if got := finish(resp); got.status != 200 {
					t.Fatalf("status %d: %s", got.status, got.body)
				}
				for i, u := range []*upstream{a, b} {
					want := `{"model": "` + route.Chain[i].Model + `",` + tc.rest + `}`
					seen := u.requests()[0]
					if seen.body != want || seen.length != int64(len(want)) {
						t.Errorf("backend %d got %d bytes (declared %d), want %d", i, len(seen.body), seen.length, len(want))
					}
				}
			})
		}
	}
}

func zipped(s string) []byte {
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	_, _ = io.WriteString(zw, s)
	_ = zw.Close()
	return out.Bytes()
}

func zstded(s string) []byte {
	zw, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = zw.Close() }()
	return zw.EncodeAll([]byte(s), nil)
}

func TestBodiesThatGrowTooLarge(t *testing.T) {
	body := `{"model":"ns/m","x":"` + strings.Repeat("x", 100_000) + `"}`
	for name, encode := range map[string]func(string) []byte{"gzip": zipped, "zstd": zstded} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newRoute(says(t, status(200, "", whole))), func(c *proxy.Config) { c.MaxBody = 50_000 })
			if got := toldBy(t, r.post(string(encode(body)), "Content-Encoding", name)); got.Status != 413 {
				t.Errorf("error %+v", got)
			}
		})
	}
	t.Run("limit and limit plus one", func(t *testing.T) {
		r := newRig(t, newRoute(newUpstream(t, func(_ int, w *wire) { w.send(status(200, "", whole)) })), func(c *proxy.Config) { c.MaxBody = int64(len(body)) })
		if got := r.post(body); got.status != 200 {
			t.Errorf("at the limit: %d %s", got.status, got.body)
		}
		if got := r.post(body + " "); got.status != 413 {
			t.Errorf("over the limit: %d %s", got.status, got.body)
		}
	})
}

// TestZstdTakesNoWindow: a kilobyte may ask its decoder for a window of 32 MiB, which no budget would know of.
func TestZstdTakesNoWindow(t *testing.T) {
	const window = 32 << 20
	var packed bytes.Buffer
	zw, err := zstd.NewWriter(&packed, zstd.WithWindowSize(window))
	if err == nil {
		_, err = zw.Write([]byte(`{"model":"ns/m"}`))
	}
	// Flushed, so that the size is not known when the header is written, which asks for the whole window then.
	if err = errors.Join(err, zw.Flush(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	var header zstd.Header
	if err := header.Decode(packed.Bytes()); err != nil || header.WindowSize != window {
		t.Fatalf("the body asks for %d bytes (%v)", header.WindowSize, err)
	}
	r := newRig(t, newRoute(says(t, status(200, "", whole))))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := r.post(packed.String(), "Content-Encoding", "zstd"); got.status != 200 {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took >= window/2 {
		t.Errorf("%d bytes were allocated for a body of %d", took, packed.Len())
	}
}

// Who compresses as it writes asks for a window of its own choice, however small the body.
func TestZstdWindowLargerThanTheLimit(t *testing.T) {
	pack := func(body string) string {
		var packed bytes.Buffer
		zw, err := zstd.NewWriter(&packed, zstd.WithWindowSize(8<<20))
		if err == nil {
			_, err = zw.Write([]byte(body))
		}
		if err = errors.Join(err, zw.Flush(), zw.Close()); err != nil {
			t.Fatal(err)
		}
		return packed.String()
	}
	body := `{"model":"ns/m","x":"` + strings.Repeat("x", 10_000) + `"}`
	r := newRig(t, newRoute(says(t, status(200, "", whole))), func(c *proxy.Config) { c.MaxBody = int64(len(body)) })
	if got := r.post(pack(body), "Content-Encoding", "zstd"); got.status != 200 {
		t.Errorf("at the limit: %d %s", got.status, got.body)
	}
	if got := r.post(pack(body+" "), "Content-Encoding", "zstd"); got.status != 413 {
		t.Errorf("over the limit: %d %s", got.status, got.body)
	}
}

func TestBodyBudgetIsSharedByAllRequests(t *testing.T) {
	hold := make(chan struct{})
	u := newUpstream(t, func(n int, w *wire) {
		if n == 0 {
			w.until(hold)
		}
		w.send(status(200, "", whole))
	})
	body := `{"model":"ns/m","x":"` + strings.Repeat("x", 10_000) + `"}`
	r := newRig(t, newRoute(u), func(c *proxy.Config) { c.BodyBudget = 15_000 })
	first := make(chan answer)
	go func() { first <- r.post(body) }()
	waitFor(t, func() bool { return u.count() == 1 })
	if diff := cmp.Diff(told{503, "overloaded", "1", ""}, toldBy(t, r.post(body))); diff != "" {
		t.Errorf("while the first is held (-want +got):\n%s", diff)
	}
	close(hold)
	if got := <-first; got.status != 200 {
		t.Errorf("the first one got %d", got.status)
	}
	if got := r.post(body); got.status != 200 {
		t.Errorf("after it was released: %d %s", got.status, got.body)
	}
}

// A body that is only announced takes no more of the budget than a small one.
func TestAnnouncedBodiesDoNotSpendTheBudget(t *testing.T) {
	r := newRig(t, newRoute(says(t, status(200, "", whole))), func(c *proxy.Config) { c.BodyBudget = 4 << 20 })
	for range 10 {
		conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{")
	}
	waitFor(t, func() bool { return r.counted("llm_in_flight_requests 10") })
	if got := r.post(`{"model":"ns/m","x":"` + strings.Repeat("x", 300<<10) + `"}`); got.status != 200 {
		t.Errorf("a body that comes got %d %s", got.status, got.body)
	}
}

// Answers that are held whole have a part in the budget: a large one is refused, and gives back what it took.
func TestBodyBudgetBoundsAnswers(t *testing.T) {
	large := strings.Replace(whole, "hi", strings.Repeat("x", 200<<10), 1)
	cases := map[string]string{
		"a declared length": status(200, "", large),
		"no length":         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + large,
		"a stream":          sseHead + strings.Repeat(c(strings.Repeat("x", 1000)), 200) + fin + done,
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(n int, w *wire) {
				if n == 0 {
					w.send(answer)
					return
				}
				w.send(status(200, "", whole))
			})
			b := says(t, status(200, "", whole))
			r := newRig(t, newRoute(a, b), func(c *proxy.Config) { c.BodyBudget = 100_000 })
			got := r.post(unary)
			if diff := cmp.Diff(told{503, "overloaded", "1", ""}, toldBy(t, got)); diff != "" || !strings.Contains(got.body, `"class":"no_room"`) {
				t.Errorf("error (-want +got):\n%s%s", diff, got.body)
			}
			if b.count() != 0 || learnedBy(r.breakers, "a") != clean {
				t.Errorf("another backend was asked %d times, breaker %+v", b.count(), learnedBy(r.breakers, "a"))
			}
			if got := r.post(`{"model":"ns/m","x":"` + strings.Repeat("x", 80_000) + `"}`); got.status != 200 {
				t.Errorf("what it took was not given back: %d %s", got.status, got.body)
			}
		})
	}
}

// What is held of a stream has a part in the budget too, where it is more than a little: before the first token and behind it.
func TestBodyBudgetBoundsWhatIsHeldOfStreams(t *testing.T) {
	large := strings.Repeat("x", 200<<10)
	overloaded := told{503, "overloaded", "1", ""}
	cases := map[string]struct {
		sent []string
		want told
	}{
		"a long prelude":               {[]string{sseHead, strings.Repeat(role, 2000)}, overloaded},
		"half an event":                {[]string{sseHead, "data: " + large}, overloaded},
		"half an event of many lines":  {[]string{sseHead, strings.Repeat("data: "+large[:1000]+"\n", 200)}, overloaded},
		"half an event behind a token": {[]string{sseHead, c("a"), "data: " + large}, told{200, "overloaded", "", ""}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := newUpstream(t, func(n int, w *wire) {
				if n == 0 {
					w.send(tc.sent...)
					w.silence()
					return
				}
				w.send(status(200, "", whole))
			})
			r := newRig(t, newRoute(a), func(c *proxy.Config) { c.BodyBudget = 100_000 })
			got := r.post(streamed)
			got.body = got.body[strings.LastIndex(got.body, `{"error"`):]
			if diff := cmp.Diff(tc.want, toldBy(t, got)); diff != "" || !strings.Contains(got.body, `"class":"no_room"`) {
				t.Errorf("error (-want +got):\n%s%s", diff, got.body)
			}
			if learnedBy(r.breakers, "a") != clean {
				t.Errorf("breaker %+v", learnedBy(r.breakers, "a"))
			}
			if got := r.post(`{"model":"ns/m","x":"` + strings.Repeat("x", 80_000) + `"}`); got.status != 200 {
				t.Errorf("what it took was not given back: %d %s", got.status, got.body)
			}
		})
	}
	t.Run("what has passed is given back while the stream goes on", func(t *testing.T) {
		more := make(chan struct{})
		a := newUpstream(t, func(n int, w *wire) {
			if n > 0 {
				w.send(status(200, "", whole))
				return
			}
			w.send(sseHead, c(large), c("next"))
			w.until(more)
			w.send(fin, done)
		})
		r := newRig(t, newRoute(a), func(c *proxy.Config) { c.BodyBudget = 2 << 20 })
		resp := r.start(streamed)
		if _, err := io.CopyN(io.Discard, resp.Body, int64(len(c(large)+c("next")))); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			return r.post(`{"model":"ns/m","x":"`+strings.Repeat("x", 1_800_000)+`"}`).status == 200
		})
		close(more)
		if got := finish(resp); got.err != nil || !strings.HasSuffix(got.body, done) {
			t.Errorf("%v, ends with %q", got.err, got.body[max(0, len(got.body)-100):])
		}
	})
}

func TestHeadersThatCross(t *testing.T) {
	sent := []string{"Authorization", "Bearer CALLER", "X-Api-Key", "CALLER", "Api-Key", "CALLER", "Cookie", "CALLER", "Openai-Organization", "CALLER",
		"X-Goog-Api-Key", "CALLER", "X-Own-Key", "CALLER", "Connection", "X-Hop", "X-Hop", "CALLER", "Te", "trailers", "Idempotency-Key", "idem",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "X-Stainless-Lang", "go", "User-Agent", "CALLER", "X-Request-Id", "req-1", "Accept-Encoding", "gzip"}
	a, b := says(t, status(500, "", `{}`)), says(t, status(500, "", `{}`))
	d := says(t, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"+status(200, "Set-Cookie: s=1\r\nServer: x\r\nX-Backend-Word: kept\r\nX-Ratelimit-Limit-Requests: 9\r\nX-Spillway-Backend: forged\r\nConnection: X-Hop\r\nX-Hop: 1\r\nOpenai-Organization: ours\r\n", whole))
	route := newRoute(a, b, d)
	route.Chain[0].Credential = &table.Credential{Header: "Authorization", Value: "Bearer KA"}
	route.Chain[2].Credential = &table.Credential{Header: "X-Own-Key", Value: "KD"}
	route.Chain[2].Headers = []table.Header{{Name: "x-extra", Value: "1"}}
	r := newRig(t, route)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.server.URL+"/v1/chat/completions?key=CALLER&api-version=2&X-Api-Key=CALLER", strings.NewReader(unary))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(sent); i += 2 {
		req.Header.Set(sent[i], sent[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	got := finish(resp)

	common := http.Header{"Content-Length": {"36"}, "Content-Type": {"application/json"}, "User-Agent": {"spillway/test"}, "X-Request-Id": {"req-1"},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "X-Stainless-Lang": {"go"}, "Idempotency-Key": {"idem"}}
	own := []http.Header{{"Authorization": {"Bearer KA"}}, {}, {"X-Own-Key": {"KD"}, "X-Extra": {"1"}}}
	for i, u := range []*upstream{a, b, d} {
		want := common.Clone()
		for name, values := range own[i] {
			want[name] = values
		}
		seen := u.requests()[0]
		if diff := cmp.Diff(want, seen.header); diff != "" {
			t.Errorf("backend %d (-want +got):\n%s", i, diff)
		}
		if seen.target != "/v1/chat/completions?api-version=2" {
			t.Errorf("target %q", seen.target)
		}
	}
	got.header.Del("Date")
	wantBack := http.Header{"Content-Type": {"application/json"}, "Content-Length": {fmt.Sprint(len(whole))}, "X-Backend-Word": {"kept"}, "X-Request-Id": {"req-1"},
		"X-Spillway-Attempts": {"3"}, "X-Spillway-Backend": {"c"}, "X-Spillway-Reason": {"failed"}, "X-Spillway-Route": {"ns/m"}}
	if diff := cmp.Diff(wantBack, got.header); diff != "" {
		t.Errorf("to the caller (-want +got):\n%s", diff)
	}
}

// A body that is sent on is JSON, whatever its caller calls it: curl -d says that it is a form, which many backends refuse.
func TestBackendsAreToldThatTheBodyIsJSON(t *testing.T) {
	cases := map[string]struct{ sent, want string }{
		"none":                {"", "application/json"},
		"JSON":                {"application/json", "application/json"},
		"JSON with a charset": {"Application/JSON ; charset=utf-8", "Application/JSON ; charset=utf-8"},
		"a kind of JSON":      {"application/vnd.x+json", "application/vnd.x+json"},
		"a form":              {"application/x-www-form-urlencoded", "application/json"},
		"text":                {"text/plain; x=application/json", "application/json"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			u := says(t, status(200, "", whole))
			newRig(t, newRoute(u)).post(unary, "Content-Type", tc.sent)
			if got := u.requests()[0].header["Content-Type"]; !slices.Equal(got, []string{tc.want}) {
				t.Errorf("the backend is told %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPathsChooseAnEndpointAndNothingElse(t *testing.T) {
	u := newUpstream(t, func(_ int, w *wire) { w.send(status(200, "", whole)) })
	route := newRoute(u)
	base := strings.TrimSuffix(route.Chain[0].BaseURL, "/v1")
	cases := map[string]struct {
		base, query, path string
		wantTarget        string // empty: 404
	}{
		"the plain one":          {base: "/v1", path: "/v1/chat/completions", wantTarget: "/v1/chat/completions"},
		"a base of its own":      {base: "/api/v1", path: "/v1/chat/completions", wantTarget: "/api/v1/chat/completions"},
		"a base with a query":    {base: "/openai/deployments/x", query: "api-version=1", path: "/v1/chat/completions?api-version=9", wantTarget: "/openai/deployments/x/chat/completions?api-version=1"},
		"two slashes":            {base: "/v1", path: "/v1//chat/completions"},
		"dots":                   {base: "/v1", path: "/v1/../v1/chat/completions"},
		"escaped dots":           {base: "/v1", path: "/v1/%2e%2e/chat/completions"},
		"a slash at the end":     {base: "/v1", path: "/v1/chat/completions/"},
		"an endpoint of another": {base: "/v1", path: "/v1/images/generations"},
		"the root":               {base: "/v1", path: "/"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			next := *route
			next.Chain = append([]table.Backend(nil), route.Chain...)
			next.Chain[0].BaseURL, next.Chain[0].Query = base+tc.base, tc.query
			r := newRig(t, &next)
			before := u.count()
			resp, err := r.client.Post(r.server.URL+tc.path, "application/json", strings.NewReader(unary))
			if err != nil {
				t.Fatal(err)
			}
			got := finish(resp)
			if tc.wantTarget == "" {
				if got.status != 404 || u.count() != before || !strings.Contains(got.body, `"error":{`) {
					t.Errorf("status %d, body %s", got.status, got.body)
				}
				return
			}
			if got.status != 200 || u.requests()[before].target != tc.wantTarget {
				t.Errorf("status %d, requests %+v", got.status, u.requests()[before:])
			}
		})
	}
}

func TestInformation(t *testing.T) {
	u := says(t)
	r := newRig(t, newRoute(u))
	r.store.Set(table.New([]*table.Route{r.route, {Namespace: "ns", Name: "empty", Model: "a/b/c"}}))
	cases := map[string]struct {
		method, path string
		status       int
		contains     string
	}{
		"models":                        {"GET", "/v1/models", 200, `"id":"a/b/c"`},
		"one model":                     {"GET", "/v1/models/a/b/c", 200, `"id":"a/b/c"`},
		"one model, escaped":            {"GET", "/v1/models/a%2Fb%2Fc", 200, `"id":"a/b/c"`},
		"a model that is unknown":       {"GET", "/v1/models/x", 404, "model_not_found"},
		"no path of models":             {"GET", "/v1/modelsx", 404, "invalid_request"},
		"models do not take a POST":     {"POST", "/v1/models", 405, "invalid_request"},
		"endpoints do not take a GET":   {"GET", "/v1/chat/completions", 405, "invalid_request"},
		"health":                        {"GET", "/healthz", 200, "ok"},
		"readiness":                     {"GET", "/readyz", 200, "ok"},
		"a ready route":                 {"GET", "/readyz/ns/m", 200, "ok"},
		"a route without backends":      {"GET", "/readyz/ns/empty", 503, "no usable backend"},
		"a route that does not exist":   {"GET", "/readyz/ns/x", 404, "no such route"},
		"metrics are on the admin port": {"GET", "/metrics", 404, "invalid_request"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, r.server.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if got := finish(resp); got.status != tc.status || !strings.Contains(got.body, tc.contains) {
				t.Errorf("status %d, body %s", got.status, got.body)
			}
		})
	}
}
