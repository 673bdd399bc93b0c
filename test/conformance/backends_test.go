package conformance

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// modern is a backend that speaks HTTP/2 over TLS. serve gets the request's body.
func modern(t *testing.T, serve func(n int, body string, w http.ResponseWriter, r *http.Request)) (backend, *httptest.Server, func() []*http.Request) {
	t.Helper()
	var mu sync.Mutex
	var seen []*http.Request
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 || r.ContentLength != int64(len(body)) {
			t.Errorf("%s, %d of %d bytes, %v", r.Proto, len(body), r.ContentLength, err)
		}
		mu.Lock()
		n := len(seen)
		seen = append(seen, r)
		mu.Unlock()
		serve(n, string(body), w, r)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	u := &upstream{t: t, base: s.URL + "/v1"}
	return u.with("tls: {verify: None}"), s, func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return append([]*http.Request(nil), seen...)
	}
}

// flush sends pieces as they are.
func flush(w http.ResponseWriter, pieces ...string) {
	for _, piece := range pieces {
		_, _ = io.WriteString(w, piece)
		_ = http.NewResponseController(w).Flush()
	}
}

func answerTo(body string, w http.ResponseWriter) {
	if strings.Contains(body, `"stream":true`) {
		flush(w, role, c("hi"), fin, done)
		return
	}
	_, _ = io.WriteString(w, whole)
}

func TestBackendsOverHTTP2(t *testing.T) {
	t.Parallel()
	abort := func(pieces ...string) func(int, string, http.ResponseWriter, *http.Request) {
		return func(_ int, _ string, w http.ResponseWriter, _ *http.Request) {
			flush(w, pieces...)
			panic(http.ErrAbortHandler)
		}
	}
	second := role + c("second") + fin + done
	cuts := map[string]struct {
		serve func(int, string, http.ResponseWriter, *http.Request)
		want  string // events; a prefix where it ends with the error
	}{
		"nothing goes wrong":         {func(_ int, body string, w http.ResponseWriter, _ *http.Request) { answerTo(body, w) }, role + c("hi") + fin + done},
		"a reset before the header":  {abort(), second},
		"a reset behind the prelude": {abort(role), second},
		"a reset behind a token":     {abort(role, c("a")), role + c("a") + `data: {"error":`},
		"a reset behind the finish":  {abort(c("a"), fin), c("a") + fin + done},
		"an end without a finish":    {func(_ int, _ string, w http.ResponseWriter, _ *http.Request) { flush(w, c("a")) }, c("a") + `data: {"error":`},
		"a refusal in HTTP's words":  {func(_ int, _ string, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(529) }, second},
		"early hints, and a trailer": {func(_ int, body string, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</LATE>")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			w.Header().Set("Trailer", "X-Late")
			answerTo(body, w)
			w.Header().Set("X-Late", "LATE")
			w.Header().Set(http.TrailerPrefix+"X-Later", "LATE")
		}, role + c("hi") + fin + done},
	}
	for name, tc := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, _ := modern(t, tc.serve)
			r := newRoute(t, nil, a, well(t, "second").plain())
			got := r.stream()
			if prefix, broken := strings.CutSuffix(tc.want, `data: {"error":`); broken {
				if said := got.said(t); said.Code != "stream_incomplete" || !strings.HasPrefix(events(got.body), tc.want) || strings.Contains(got.body, "[DONE]") {
					t.Errorf("%+v behind %q: %q", said, prefix, got.body)
				}
			} else if events(got.body) != tc.want || got.err != nil {
				t.Errorf("%v %q, want %q", got.err, got.body, tc.want)
			}
			if strings.Contains(fmt.Sprint(got.header, got.body), "LATE") || strings.Contains(fmt.Sprint(got.header), "X-Late") {
				t.Errorf("a trailer or an informational answer crossed: %v", got.header)
			}
		})
	}
	t.Run("C11 the connection is gone when the next request comes", func(t *testing.T) {
		t.Parallel()
		a, s, seen := modern(t, func(n int, body string, w http.ResponseWriter, _ *http.Request) {
			if n%2 == 1 {
				w.Header().Set("Connection", "close") // GOAWAY
			}
			answerTo(body, w)
		})
		r := newRoute(t, nil, a, well(t, "second").plain())
		for i := range 12 {
			if got := r.ask(); got.status != 200 || got.header.Get("X-Spillway-Backend") != "a" || got.header.Get("X-Spillway-Attempts") != "1" {
				t.Errorf("request %d: %d %v %q", i, got.status, got.header, got.body)
			}
			if i%3 == 2 {
				s.CloseClientConnections()
			}
		}
		if n := len(seen()); n != 12 {
			t.Errorf("%d requests arrived", n)
		}
	})
	t.Run("many at once, some of which leave", func(t *testing.T) {
		t.Parallel()
		left := make(chan struct{}, 8)
		a, _, _ := modern(t, func(_ int, body string, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(body, "LEAVE") {
				flush(w, c("a"))
				<-r.Context().Done()
				left <- struct{}{}
				return
			}
			answerTo(body, w)
		})
		r := newRoute(t, nil, a)
		var calls sync.WaitGroup
		for i := range 16 {
			calls.Go(func() {
				if i%2 == 1 {
					cl := dial(t).send(request(chat, strings.Replace(r.streamed(), "[]", `["LEAVE"]`, 1)))
					cl.until(c("a"))
					cl.leave()
					<-left
					return
				}
				if got := r.stream(); events(got.body) != role+c("hi")+fin+done {
					t.Errorf("%v %q", got.err, got.body)
				}
			})
		}
		calls.Wait()
	})
	t.Run("C9 the caller's header stays here", func(t *testing.T) {
		t.Parallel()
		a, _, seen := modern(t, func(_ int, body string, w http.ResponseWriter, _ *http.Request) { answerTo(body, w) })
		r := newRoute(t, nil, a)
		r.ask("Authorization: CALLER", "Connection: X-Hop", "X-Hop: CALLER", "TE: trailers", "Keep-Alive: CALLER", "Proxy-Connection: CALLER", "Upgrade: CALLER", "X-Kept: 1")
		if h := seen()[0].Header; strings.Contains(fmt.Sprint(h), "CALLER") || h.Get("Te") != "" || h.Get("X-Kept") != "1" || h.Get("User-Agent") != "spillway/dev" {
			t.Errorf("header %v", h)
		}
	})
}
