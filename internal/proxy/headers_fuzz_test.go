package proxy

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

// What the design keeps on its side, by its words and independently of the tables in headers.go. A star stands for any end.
const (
	ofTheConnection = "connection keep-alive proxy-* te trailer transfer-encoding upgrade expect content-length content-encoding http2-settings"
	secrets         = "authorization x-api-key api-key x-goog-api-key ocp-apim-subscription-key x-auth-token x-access-token " +
		"x-amz-security-token cf-access-client-id cf-access-client-secret cf-access-jwt-assertion cookie cookie2 set-cookie set-cookie2"
	secretEnds  = "-api-key apikey -access-key -secret-key -auth-key -auth authorization -token -secret -password"
	ofTheCaller = "openai-organization openai-project accept-encoding host user-agent via forwarded x-forwarded-* x-real-ip origin referer " +
		"x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip client-ip x-original-url x-rewrite-url x-http-method x-http-method-override x-method-override digest content-digest repr-digest content-md5 " +
		"sec-* access-control-* x-spillway-* x-prefer-backend x-request-deadline-ms x-request-timeout-ms x-request-id"
	ofTheBackend = "location content-location refresh etag digest content-digest repr-digest content-md5 content-range accept-ranges " +
		"www-authenticate server via alt-svc strict-transport-security date retry-after retry-after-ms x-should-retry " +
		"openai-organization openai-project anthropic-organization-id x-accel-* x-sendfile cache-control content-type x-request-id " +
		"x-spillway-* x-ratelimit-* ratelimit ratelimit-* anthropic-ratelimit-* access-control-*"
)

// listed says whether a name is in a list.
func listed(name, list string) bool {
	name = strings.ToLower(name)
	for one := range strings.FieldsSeq(list) {
		prefix, star := strings.CutSuffix(one, "*")
		if one == name || star && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// namesSecret says whether a name ends as those of credentials do.
func namesSecret(name string) bool {
	name = strings.ToLower(name)
	for end := range strings.FieldsSeq(secretEnds) {
		if strings.HasSuffix(name, end) || name == strings.TrimPrefix(end, "-") {
			return true
		}
	}
	return false
}

// nominatedBy says whether a header's Connection fields name another field.
func nominatedBy(h http.Header, name string) bool {
	return slices.ContainsFunc(h.Values("Connection"), func(line string) bool {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.Trim(token, " \t"), name) {
				return true
			}
		}
		return false
	})
}

const (
	staysFromBackends = ofTheConnection + " " + secrets + " " + ofTheCaller + " x-vendor-key"
	staysFromCallers  = ofTheConnection + " " + secrets + " " + ofTheBackend + " x-vendor-key"
	ours              = "host user-agent content-length content-type x-request-id"
)

// hygieneChain is the chain of field case C9, and one backend with a header of its own and its credential in an unusual one.
func hygieneChain() *table.Route {
	key := func(header, value string) *table.Credential { return &table.Credential{Header: header, Value: value} }
	return &table.Route{Namespace: "ns", Name: "m", Model: "ns/m", Chain: []table.Backend{
		{Name: "a", Model: "pa", Credential: key("Authorization", "Bearer SECRET-KA")},
		{Name: "b", Model: "pb"},
		{Name: "d", Model: "pd", Credential: key("x-api-key", "SECRET-KD")},
		{Name: "e", Model: "pe", Credential: key("X-Vendor-Key", "SECRET-KE"), Headers: []table.Header{{Name: "x-tenant", Value: "blue"}}},
	}}
}

// oneOfEach is a header with one field of each name that the lists hold, apart from those that would frame the message anew.
func oneOfEach(lists string) []byte {
	var h bytes.Buffer
	for name := range strings.FieldsSeq(lists) {
		if !listed(name, "connection transfer-encoding content-length trailer host") {
			h.WriteString(strings.Replace(name, "*", "any", 1) + ": SECRET\r\n")
		}
	}
	for end := range strings.FieldsSeq(secretEnds) {
		h.WriteString("Acme" + end + ": SECRET\r\n")
	}
	return h.Bytes()
}

// FuzzHeadersToBackend sends a request with any header to each backend of the chain, and reads back what goes over the wire.
func FuzzHeadersToBackend(f *testing.F) {
	for _, seed := range []string{
		"Authorization: Bearer CALLER\r\nx-api-key: CALLER\r\napi-key: CALLER\r\nCookie: a=CALLER\r\nOpenAI-Organization: CALLER\r\n",
		"Connection: close, X-Custom ,\tx-other\r\nX-Custom: 1\r\nX-Other: 2\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Kept: 3\r\n",
		"Connection: content-type\r\nContent-Type: text/plain\r\nConnection: user-agent\r\n",
		"Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAA\r\nExpect: 100-continue\r\nTrailer: X-End\r\n",
		"Proxy-Authorization: Basic CALLER\r\nProxy-Connection: keep-alive\r\nX-Vendor-Key: CALLER\r\nx-tenant: red\r\n",
		"anthropic-version: 2023-06-01\r\nanthropic-beta: a\r\nanthropic-beta: b\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
		"X-Split: a\x00b\r\nX-Folded: a\r\n b\r\nX-Latin: \xe9\r\nX-Space : 1\r\n",
		"X-Authorization: CALLER\r\nApikey: CALLER\r\nPrivate-Token: CALLER\r\nToken: CALLER\r\nHelicone-Auth: CALLER\r\nX-Client-Secret: CALLER\r\nX-Max-Tokens: 5\r\n",
		"Digest: SHA-256=a\r\nContent-Digest: sha-256=:a=:\r\nRepr-Digest: sha-256=:a=:\r\nContent-MD5: a\r\n",
		"X-Original-Url: /admin\r\nX-Rewrite-Url: /admin\r\nX-HTTP-Method-Override: DELETE\r\nTrue-Client-Ip: 10.0.0.1\r\n",
		"Content-Type: application/json; charset=utf-8\r\n",
		"Content-Type: application/x-www-form-urlencoded\r\n",
		"Content-TYpe:\r\n",
		"X-Forwarded-For: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nSec-Fetch-Mode: cors\r\nOrigin: null\r\nIdempotency-Key: k\r\nCookie2: CALLER\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Add(oneOfEach(staysFromBackends))
	f.Fuzz(func(t *testing.T, header []byte) {
		in, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader("POST /v1/chat/completions?key=CALLER HTTP/1.1\r\n"),
			bytes.NewReader(header), strings.NewReader("Host: proxy\r\n\r\n"))))
		if err != nil || !serverTakes(in.Header) {
			t.Skip("the server answers such a request itself")
		}
		route := hygieneChain()
		x := &exchange{p: &Proxy{userAgent: []string{"Spillway/test"}}, r: in, route: route}
		x.log.RequestID = "ours"
		for i := range route.Chain {
			mustReachClean(t, in.Header, &route.Chain[i], overTheWire(t, x, &route.Chain[i]))
		}
	})
}

// serverTakes does what net/http's server does with a header before a handler sees it.
func serverTakes(h http.Header) bool {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return false
		}
	}
	return true
}

// overTheWire returns the header as the backend reads it. The bytes must be one request, with the body that was meant.
func overTheWire(t *testing.T, x *exchange, b *table.Backend) http.Header {
	t.Helper()
	const body = `{"model":"ns/m"}`
	envelope, err := openai.ParseEnvelope([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	target := &url.URL{Scheme: "http", Host: "backend", Path: "/v1/chat/completions"}
	var sent bytes.Buffer
	if err := newRequest(t.Context(), target, x.toBackend(b), envelope.Splice([]byte(body), b.Model)).Write(&sent); err != nil {
		t.Fatal(err)
	}
	if line, _, _ := bytes.Cut(sent.Bytes(), []byte("\r\n")); string(line) != "POST /v1/chat/completions HTTP/1.1" {
		t.Fatalf("request line %q", line)
	}
	head, _, _ := bytes.Cut(sent.Bytes(), []byte("\r\n\r\n"))
	if bare := bytes.ReplaceAll(head, []byte("\r\n"), nil); bytes.ContainsAny(bare, "\r\n\x00") {
		t.Fatalf("a bare end of line in %q", head)
	}
	in := bufio.NewReader(&sent)
	got, err := http.ReadRequest(in)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(got.Body); err != nil || string(text) != `{"model":"`+b.Model+`"}` {
		t.Fatalf("body %q, %v", text, err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 || got.Host != "backend" {
		t.Fatalf("to %q, behind the request: %q, %v", got.Host, rest, err)
	}
	return got.Header
}

// mustReachClean compares what arrived with what the caller sent and with what is the backend's own.
func mustReachClean(t *testing.T, sent http.Header, b *table.Backend, got http.Header) {
	t.Helper()
	own := http.Header{"User-Agent": {"Spillway/test"}, headerRequestID: {"ours"}}
	addOwn(own, b)
	for name := range got {
		stays := listed(name, staysFromBackends) || namesSecret(name) || nominatedBy(sent, name)
		if stays && own[name] == nil && !listed(name, ours) {
			t.Errorf("%s: %s crossed: %q", b.Name, name, got[name])
		}
	}
	for name, values := range own {
		if !slices.Equal(got[name], values) {
			t.Errorf("%s: %s is %q, want its own %q", b.Name, name, got[name], values)
		}
	}
	for name, values := range sent {
		stays := listed(name, staysFromBackends) || namesSecret(name) || nominatedBy(sent, name)
		if !stays && own[name] == nil && !slices.Equal(got[name], trimmed(values)) && !toldAsJSON(name, values[0], got) {
			t.Errorf("%s: %s arrived as %q, sent as %q", b.Name, name, got[name], values)
		}
	}
	if !strings.Contains(strings.ToLower(got.Get("Content-Type")), "json") {
		t.Errorf("%s: the body is called %q", b.Name, got["Content-Type"])
	}
}

// toldAsJSON says whether a field is a content type that the caller's body does not have, and the backend is told the right one.
func toldAsJSON(name, sent string, got http.Header) bool {
	media, _, _ := strings.Cut(strings.ToLower(sent), ";")
	isJSON := strings.Trim(media, " \t") == "application/json"
	return name == "Content-Type" && !isJSON && slices.Equal(got[name], []string{"application/json"})
}

func trimmed(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.Trim(v, " \t")
	}
	return out
}

// FuzzHeadersToCaller answers with any header, and reads back what the caller gets.
func FuzzHeadersToCaller(f *testing.F) {
	for _, seed := range []string{
		"Content-Type: application/json\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b\r\nSet-Cookie2: a=b\r\nX-Kept: 1\r\nX-Kept: 2\r\n",
		"Connection: close, X-Internal\r\nX-Internal: 1\r\nKeep-Alive: 5\r\nTrailer: X-End\r\nTransfer-Encoding: chunked\r\n",
		"Authorization: Bearer SECRET-KA\r\nX-Vendor-Key: SECRET-KE\r\nx-api-key: SECRET-KD\r\nCookie: a\r\n",
		"Location: http://other/\r\nWWW-Authenticate: Bearer\r\nServer: s\r\nDate: now\r\nRetry-After: 5\r\nx-ratelimit-limit-requests: 9\r\n",
		"openai-processing-ms: 5\r\nanthropic-ratelimit-requests-limit: 5\r\nX-Spillway-Backend: liar\r\nX-Request-Id: theirs\r\n",
		"Access-Control-Allow-Origin: *\r\nAnthropic-Organization-Id: o\r\nRateLimit: 5\r\nRateLimit-Policy: p\r\nX-Csrf-Token: t\r\nX-Accel-Redirect: /etc\r\n",
		"X-Nul: a\x00b\r\nX-Space : 1\r\nX-Folded: a\r\n\tb\r\nX-Latin: \xe9\r\nSet-Cookie : a\r\n: none\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Add(oneOfEach(staysFromCallers))
	f.Fuzz(func(t *testing.T, header []byte) {
		resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n"),
			bytes.NewReader(header), strings.NewReader("\r\n"))), nil)
		if err != nil {
			t.Skip("no answer: the attempt fails")
		}
		answer := http.Header{headerRequestID: {"ours"}}
		toCaller(answer, resp.Header, &hygieneChain().Chain[3])
		mustComeBackClean(t, resp.Header, asWritten(t, answer))
	})
}

// asWritten is the header as it goes over the wire, where net/http leaves out what is no field.
func asWritten(t *testing.T, h http.Header) http.Header {
	t.Helper()
	var wire bytes.Buffer
	if err := h.Write(&wire); err != nil {
		t.Fatal(err)
	}
	if bare := bytes.ReplaceAll(wire.Bytes(), []byte("\r\n"), nil); bytes.ContainsAny(bare, "\r\n") || bytes.Contains(wire.Bytes(), []byte("\r\n\r\n")) {
		t.Fatalf("a header that ends early: %q", wire.Bytes())
	}
	out := http.Header{}
	for line := range strings.SplitSeq(strings.TrimSuffix(wire.String(), "\r\n"), "\r\n") {
		name, value, _ := strings.Cut(line, ": ")
		out[name] = append(out[name], value)
	}
	return out
}

func mustComeBackClean(t *testing.T, sent, got http.Header) {
	t.Helper()
	stays := func(name string) bool {
		return listed(name, staysFromCallers) || namesSecret(name) || nominatedBy(sent, name)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if stays(name) && name != headerRequestID {
			t.Errorf("%s crossed: %q", name, got[name])
		}
	}
	if !slices.Equal(got[headerRequestID], []string{"ours"}) {
		t.Errorf("%s is %q", headerRequestID, got[headerRequestID])
	}
	for name, values := range sent {
		if httpguts.ValidHeaderFieldName(name) && !stays(name) && !slices.Equal(got[name], trimmed(values)) {
			t.Errorf("%s came as %q, sent as %q", name, got[name], values)
		}
	}
}
