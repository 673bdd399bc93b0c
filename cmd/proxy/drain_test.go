package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	whole = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris"},"finish_reason":"stop"}]}`
	chunk = `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"Paris"},"finish_reason":null}]}` + "\n\n"
)

// standaloneArgs are the flags for one route ns/m without limits, to a backend at url.
func standaloneArgs(t *testing.T, url string) []string {
	t.Helper()
	dir := t.TempDir()
	route := fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: m, namespace: ns}
spec:
  chain:
    - {name: tower, url: "%s/v1", model: m}
  rateLimit: {requests: 0}
  heartbeat: {interval: 1s, commitAfter: 0s}
`, url)
	if err := os.WriteFile(filepath.Join(dir, "route.yaml"), []byte(route), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--manifests", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--access-log", "off"}
}

func awaitReady(t *testing.T, client *http.Client, at listening) {
	t.Helper()
	for fetch(t, client, "http://"+at.Admin+"/readyz") != "ok\n" {
		if t.Context().Err() != nil {
			t.Fatal("never ready")
		}
	}
}

// scripted answers a request to the backend; it returns when the proxy leaves at the latest.
type scripted func(w http.ResponseWriter, r *http.Request)

func flush(w http.ResponseWriter, text string) {
	fmt.Fprint(w, text)
	_ = http.NewResponseController(w).Flush()
}

// The end of the program, whatever its callers and its backends do: bounded, and told to each caller that listens.
func TestDrainEndsWhatDoesNotEnd(t *testing.T) {
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	stuck := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, chunk)
		<-r.Context().Done()
	}
	flood := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for block := strings.Repeat(chunk, 1000); r.Context().Err() == nil; {
			fmt.Fprint(w, block)
		}
	}
	cases := map[string]struct {
		backend scripted
		stream  bool
		begins  string // what the caller reads before the signal
		deaf    bool   // it reads no more after it
		status  int
		ends    []string // in what it reads after it
	}{
		"a stream whose backend went silent": {stuck, true, "Paris", false, 200, []string{`data: {"error":{`, `"code":"overloaded"`}},
		"a stream that has not begun":        {silent, true, `"state":"attempt"`, false, 200, []string{`data: {"error":{`, `"code":"overloaded"`}},
		"an answer that does not come":       {silent, false, "", false, 503, []string{`"code":"overloaded"`}},
		"a caller that does not read":        {flood, true, "Paris", true, 200, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				arrived <- struct{}{}
				tc.backend(w, r)
			}))
			defer backend.Close()
			at, terminate, code := start(t, append(standaloneArgs(t, backend.URL), "--drain-delay", "10ms", "--drain-timeout", "300ms")...)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			awaitReady(t, client, at)

			answered := make(chan *http.Response, 1)
			go func() {
				resp, err := client.Post("http://"+at.Data+"/v1/chat/completions", "application/json",
					strings.NewReader(fmt.Sprintf(`{"model":"ns/m","stream":%v,"messages":[]}`, tc.stream)))
				if err != nil {
					t.Error(err)
				}
				answered <- resp
			}()
			<-arrived
			var resp *http.Response
			var read *bufio.Reader
			if tc.begins != "" {
				if resp = <-answered; resp == nil {
					return
				}
				read = bufio.NewReader(resp.Body)
				for line := ""; !strings.Contains(line, tc.begins); {
					var err error
					if line, err = read.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
			}
			terminate()
			if resp == nil {
				if resp = <-answered; resp == nil {
					return
				}
				read = bufio.NewReader(resp.Body)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tc.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tc.status)
			}
			if !tc.deaf {
				rest, err := io.ReadAll(read)
				for _, want := range tc.ends {
					if !strings.Contains(string(rest), want) {
						t.Errorf("the end lacks %s: %q, %v", want, rest, err)
					}
				}
				if strings.Contains(string(rest), "[DONE]") {
					t.Errorf("the end pretends to be whole: %q", rest)
				}
			}
			if got := <-code; got != exitOK {
				t.Errorf("exit code %d", got)
			}
		})
	}
}

func TestDrainServesWhatComes(t *testing.T) {
	release := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush(w, chunk)
		<-release
		fmt.Fprint(w, strings.Replace(chunk, `"finish_reason":null`, `"finish_reason":"stop"`, 1)+"data: [DONE]\n\n")
	}))
	defer backend.Close()
	at, terminate, code := start(t, append(standaloneArgs(t, backend.URL), "--drain-delay", "4s", "--drain-timeout", "1h")...)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	awaitReady(t, client, at)
	call := func(stream bool) *http.Response {
		resp, err := client.Post("http://"+at.Data+"/v1/chat/completions", "application/json",
			strings.NewReader(fmt.Sprintf(`{"model":"ns/m","stream":%v,"messages":[]}`, stream)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	running := call(true)
	read := bufio.NewReader(running.Body)
	for line := ""; !strings.Contains(line, "Paris"); {
		var err error
		if line, err = read.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	terminate()
	for fetch(t, client, "http://"+at.Admin+"/readyz") != "draining\n" {
	}
	if got := call(false); got.StatusCode != http.StatusOK || !got.Close {
		t.Errorf("new work gets %d, and its connection stays = %v", got.StatusCode, !got.Close)
	}
	if got := fetch(t, client, "http://"+at.Admin+"/healthz"); got != "ok\n" {
		t.Errorf("health while draining = %q", got)
	}
	close(release)
	if rest, err := io.ReadAll(read); err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the running stream ends with %q, %v", rest, err)
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

func TestBackendInTroubleLeavesTheProxyReady(t *testing.T) {
	backend := httptest.NewServer(http.NotFoundHandler())
	url := backend.URL
	backend.Close() // nobody is there
	at, _, _ := start(t, append(standaloneArgs(t, url), "--drain-delay", "0s")...)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	awaitReady(t, client, at)
	for range 10 { // twice what opens its breaker
		resp, err := client.Post("http://"+at.Data+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"ns/m","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < http.StatusInternalServerError {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	for _, url := range []string{"http://" + at.Admin + "/readyz", "http://" + at.Data + "/readyz", "http://" + at.Data + "/readyz/ns/m"} {
		if got := fetch(t, client, url); got != "ok\n" {
			t.Errorf("readiness = %q", got)
		}
	}
}
