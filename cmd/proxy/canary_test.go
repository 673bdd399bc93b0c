package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// out gathers what is written, and can be read meanwhile.
type out struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *out) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *out) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// until waits for something that the program brings about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if is() {
			return
		}
		<-tick.C
	}
	t.Fatal("it never came: " + what)
}

// backendWithACanary answers over TLS and goes on talking after its answer, which net/http complains of in Go's standard log.
func backendWithACanary(t *testing.T) *httptest.Server {
	t.Helper()
	const body = `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"canary-answer"},"finish_reason":"stop"}]}`
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		fmt.Fprint(conn, "canary-answer unasked\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the proxy closes
	}))
	t.Cleanup(s.Close)
	return s
}

const canaryRoutes = `apiVersion: v1
kind: Secret
metadata: {name: key, namespace: ns}
data: {token: %s}
---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: good, namespace: ns}
spec:
  chain:
    - {name: tower, url: "%s/v1", model: m, tls: {verify: None}, auth: {secretRef: {name: key, key: token}}}
---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: forbidden, namespace: ns}
spec:
  chain:
    - {name: inside, url: "http://169.254.77.77/v1", model: m}
---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: nowhere, namespace: ns}
spec:
  chain:
    - {name: lost, url: "http://canary-host.invalid/v1", model: m, auth: {secretRef: {name: key, key: token}}}
---
apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {name: game-night, namespace: ns}
spec: {routes: {selector: {}}, backend: tower, mode: Prefer, expiresAt: "%s", reason: canary-pin-reason}
`

// badManifests are files that cannot be used, each with something that must not be repeated.
var badManifests = map[string]string{
	"broken.yaml":  "apiVersion: v1\nkind: Secret\nstringData: {token: canary-backend-key\n",
	"base64.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: odd, namespace: ns}\ndata: {token: canary-backend-key!}\n",
	"shape.yaml":   "apiVersion: v1\nkind: Secret\nmetadata: {name: shape, namespace: ns}\nstringData: [canary-backend-key]\n",
	"kind.yaml":    "apiVersion: v1\nkind: Secret\nmetadata: {name: {canary-backend-key: x}, namespace: ns}\n",
	"login.yaml":   "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: login, namespace: ns}\nspec: {chain: [{name: b, url: \"https://user:canary-backend-key@canary-host.invalid/v1\", model: m}]}\n",
	"header.yaml":  "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: header, namespace: ns}\nspec: {chain: [{name: b, url: \"https://canary-host.invalid/v1\", model: m, headers: [{name: X-Key, value: \"canary-backend-key\\n\"}]}]}\n",
	"pin.yaml":     "apiVersion: spillway.dev/v1alpha1\nkind: BackendPin\nmetadata: {name: long, namespace: ns}\nspec: {routes: {names: [good]}, backend: tower, mode: Prefer, duration: 1h, reason: \"" + strings.Repeat("canary-pin-reason ", 20) + "\"}\n",
	"unknown.yaml": "apiVersion: spillway.dev/v1alpha1\nkind: LLMRoute\nmetadata: {name: unknown, namespace: ns}\nspec: {chain: [{name: b, url: \"https://canary-host.invalid/v1\", model: m, secret: canary-backend-key}]}\n",
}

// The whole program, with everything that it says gathered: standard output and error at the finest level, metrics, and
// the bytes that reach the collector of traces.
func TestNothingSecretLeavesTheProgram(t *testing.T) {
	backend := backendWithACanary(t)
	var spans out
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(&spans, r.Body) }))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := t.TempDir()
	for name, key := range map[string]string{"ann": "canary-caller-key", "short": "canary-bad", "binary": "canary-caller-\xff\x00-key"} {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("routes.yaml", fmt.Sprintf(canaryRoutes, base64.StdEncoding.EncodeToString([]byte("canary-backend-key")), backend.URL,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))

	ctx, terminate := context.WithCancel(context.Background())
	defer terminate()
	var stdout, stderr out
	exit := make(chan int, 1)
	go func() {
		exit <- run(ctx, []string{"--manifests", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s",
			"--log-level", "DEBUG", "--caller-auth", "keys", "--caller-keys-dir", keys}, &stdout, &stderr)
	}()
	var at listening
	until(t, "the addresses", func() bool {
		return slices.ContainsFunc(strings.Split(stderr.String(), "\n"), func(line string) bool {
			return json.Unmarshal([]byte(line), &at) == nil && at.Msg == "listening"
		})
	})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	until(t, "readiness", func() bool { return fetch(t, client, "http://"+at.Admin+"/readyz") == "ok\n" })

	var errors strings.Builder
	const strange = "canary-\xff\xfe-model"
	for _, model := range []string{"ns/good", "ns/forbidden", "ns/nowhere", "ns/canary-model", strange} {
		status, body := askForCanary(t, client, at.Data, model, "canary-caller-key")
		if (model == "ns/good") != (status == http.StatusOK) {
			t.Errorf("%s was answered %d: %s", model, status, body)
		}
		if status != http.StatusOK && model != "ns/canary-model" { // it may read its own word
			errors.WriteString(body)
		}
	}
	for _, key := range []string{"canary-unknown-key", "canary-\xff-key", strings.Repeat("canary-", 4000)} {
		status, body := askForCanary(t, client, at.Data, "ns/good", key)
		if status != http.StatusUnauthorized {
			t.Errorf("a key that is none was answered %d: %s", status, body)
		}
		errors.WriteString(body)
	}
	for name, text := range badManifests {
		write(name, text)
	}
	until(t, "the reload", func() bool { return strings.Contains(stderr.String(), "unknown.yaml") })
	until(t, "what the backend said unasked", func() bool { return strings.Contains(stderr.String(), "a library logged") })
	metrics := fetch(t, client, "http://"+at.Admin+"/metrics")
	terminate()
	if code := <-exit; code != exitOK {
		t.Errorf("exit code = %d", code)
	}
	if !strings.Contains(spans.String(), "spillway-proxy") || strings.Count(stdout.String(), "trace_id") != 8 {
		t.Errorf("spans were not flushed (%d bytes), or the access log is not whole: %s", len(spans.String()), stdout.String())
	}
	for where, text := range map[string]string{"standard output": stdout.String(), "standard error": stderr.String(), "metrics": metrics,
		"spans": spans.String(), "errors": errors.String()} {
		for _, secret := range []string{"canary-", "169.254.77.77", strings.TrimPrefix(backend.URL, "https://"),
			base64.StdEncoding.EncodeToString([]byte("canary-backend-key"))} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s got out through %s: ...%s...", secret, where, text[max(0, i-200):min(len(text), i+60)])
			}
		}
	}
}

func askForCanary(t *testing.T, client *http.Client, addr, model, key string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/chat/completions?key=canary-query",
		strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"canary-prompt"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("X-Custom", "canary-header")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
