package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// settings are fields of a route's spec in flow style, in place of those of the tests.
type settings map[string]string

// quiet are the defaults of the tests: no limit that a test does not set.
var quiet = settings{
	"rateLimit":     "{requests: 0}",
	"heartbeat":     "{interval: 0s, commitAfter: 10m}",
	"saturation":    "{slowAfter: 0s, coldStartGrace: 0s}",
	"timeouts":      "{connect: 1m}", // a busy machine takes seconds for a handshake
	"responseModel": "Physical",
}

// backend is one entry of a chain.
type backend struct {
	u     *upstream
	extra string // further fields in flow style, each behind a comma
}

func (u *upstream) with(extra string) backend { return backend{u, ", " + extra} }

func (u *upstream) plain() backend { return backend{u, ""} }

var routes atomic.Int64

// route is one LLMRoute in the namespace lab, with backends a, b, c, ...
type route struct {
	t     *testing.T
	name  string
	model string
	file  string
}

// newRoute adds a route and returns it when it is served.
func newRoute(t *testing.T, set settings, chain ...backend) *route {
	t.Helper()
	name := fmt.Sprintf("r%d", routes.Add(1))
	r := &route{t: t, name: name, model: "lab/" + name, file: filepath.Join(proxy.manifests, name+".yaml")}
	r.write(set, chain...)
	t.Cleanup(func() { _ = os.Remove(r.file) })
	waitFor(t, "the route is served", func() bool {
		return get(t, "/readyz/lab/"+name).status == http.StatusOK
	})
	return r
}

// routed is newRoute for backends without fields of their own.
func routed(t *testing.T, set settings, chain ...*upstream) *route {
	t.Helper()
	var backends []backend
	for _, u := range chain {
		backends = append(backends, u.plain())
	}
	return newRoute(t, set, backends...)
}

// write puts the route's manifest in place, in one step.
func (r *route) write(set settings, chain ...backend) { r.writeWith("", set, chain...) }

// writeWith is write with further documents in the same file.
func (r *route) writeWith(documents string, set settings, chain ...backend) {
	r.t.Helper()
	var spec strings.Builder
	fmt.Fprintf(&spec, "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: %s, namespace: lab}\nspec:\n", r.name)
	merged := settings{}
	for _, from := range []settings{quiet, set} {
		for name, value := range from {
			merged[name] = value
		}
	}
	var names []string
	for name := range merged {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&spec, "  %s: %s\n", name, merged[name])
	}
	spec.WriteString("  chain:\n")
	for i, b := range chain {
		letter := string(rune('a' + i))
		fmt.Fprintf(&spec, "  - {name: %s, url: %q, model: %s%s}\n", letter, b.u.url(), r.physical(letter), b.extra)
	}
	spec.WriteString(documents)
	r.put(spec.String())
}

// put replaces the route's file in one step.
func (r *route) put(text string) {
	r.t.Helper()
	draft := r.file + ".draft" // not a manifest by its name
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(draft, r.file); err != nil {
		r.t.Fatal(err)
	}
}

// physical is the model's name at a backend. It is the route's own: ports are used again, and a backend with the same port
// and model would have the breaker of another test.
func (r *route) physical(backend string) string { return r.name + "-" + backend }

// unary and streamed are bodies for the route.
func (r *route) unary() string    { return `{"model":"` + r.model + `","messages":[]}` }
func (r *route) streamed() string { return `{"model":"` + r.model + `","stream":true,"messages":[]}` }

const chat = "/v1/chat/completions"

// request is a raw request; header holds whole lines.
func request(path, body string, header ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		path, len(body), strings.Join(append(header, ""), "\r\n"), body)
}

// caller is the caller's end of one connection to the proxy.
type caller struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(2 * patience))
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (cl *caller) send(pieces ...string) *caller {
	for _, piece := range pieces {
		_, _ = io.WriteString(cl.conn, piece) // what the proxy refuses shows in its answer
	}
	return cl
}

// leave ends the connection.
func (cl *caller) leave() { _ = cl.conn.Close() }

// until reads raw bytes up to and with a mark.
func (cl *caller) until(mark string) string {
	cl.t.Helper()
	var seen bytes.Buffer
	for !strings.HasSuffix(seen.String(), mark) {
		b, err := cl.in.ReadByte()
		if err != nil {
			cl.t.Fatalf("the connection ended with %v before %q came; it brought %q", err, mark, seen.String())
		}
		seen.WriteByte(b)
	}
	return seen.String()
}

// response is one answer, read to its end.
type response struct {
	status int
	header http.Header
	body   string
	err    error // how the body ended, nil where it is whole
}

func (cl *caller) response() response {
	cl.t.Helper()
	for {
		resp, err := http.ReadResponse(cl.in, &http.Request{Method: http.MethodPost})
		if err != nil {
			return response{err: err}
		}
		if resp.StatusCode >= http.StatusOK {
			return read(resp)
		}
	}
}

func read(resp *http.Response) response {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return response{resp.StatusCode, resp.Header, string(body), err}
}

// post sends one request on a connection of its own.
func post(t *testing.T, path, body string, header ...string) response {
	t.Helper()
	cl := dial(t)
	defer cl.leave()
	return cl.send(request(path, body, header...)).response()
}

func (r *route) ask(header ...string) response    { return post(r.t, chat, r.unary(), header...) }
func (r *route) stream(header ...string) response { return post(r.t, chat, r.streamed(), header...) }

func get(t *testing.T, path string) response {
	t.Helper()
	cl := dial(t)
	defer cl.leave()
	return cl.send("GET " + path + " HTTP/1.1\r\nHost: proxy\r\n\r\n").response()
}

// told is what an error envelope says.
type told struct {
	Status     int
	Code       string
	RetryAfter string
	Attempts   string // names and classes
}

// said reads an error from an answer with a status of its own, or from the last event of a stream.
func (r response) said(t *testing.T) told {
	t.Helper()
	text := r.body
	if at := strings.LastIndex(text, "data: "); at >= 0 {
		text = text[at+len("data: "):]
	}
	var body struct {
		Error *struct {
			Message, Type string
			Code          any
			Attempts      []struct{ Backend, Class string }
		}
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil || body.Error == nil {
		t.Fatalf("no error envelope: status %d, %v, %q", r.status, r.err, r.body)
	}
	if body.Error.Message == "" || strings.Contains(text, "127.0.0.1") {
		t.Errorf("an error without words, or one that names a host: %s", text)
	}
	var attempts []string
	for _, a := range body.Error.Attempts {
		attempts = append(attempts, a.Backend+" "+a.Class)
	}
	return told{r.status, fmt.Sprint(body.Error.Code), r.header.Get("Retry-After"), strings.Join(attempts, ", ")}
}

// events is a stream without its comments.
func events(stream string) string {
	var out strings.Builder
	for line := range strings.SplitAfterSeq(stream, "\n") {
		if !strings.HasPrefix(line, ":") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// comments are the comments of a stream alone.
func comments(stream string) []string {
	var out []string
	for line := range strings.SplitSeq(stream, "\n") {
		if text, is := strings.CutPrefix(line, ": "); is {
			out = append(out, text)
		}
	}
	return out
}

// states are the states of a stream's heartbeats, repetitions left out.
func states(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	for _, text := range comments(stream) {
		var beat struct {
			State   string
			Backend string
			Elapsed int `json:"elapsed_ms"`
		}
		if err := json.Unmarshal([]byte(text), &beat); err != nil {
			t.Fatalf("a comment that is no heartbeat: %q", text)
		}
		if beat.Elapsed == 0 {
			out = append(out, beat.State+" "+beat.Backend)
		}
	}
	return out
}
