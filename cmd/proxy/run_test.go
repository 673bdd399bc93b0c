package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("no kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // not in a pod
	t.Setenv("POD_NAME", "")
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"no source outside of a pod":          {nil, 2, "--manifests DIR"},
		"two sources":                         {[]string{"--manifests", dir, "--kubeconfig", file}, 2, "one or the other"},
		"a pod's name without a cluster":      {[]string{"--manifests", dir, "--pod-name", "p"}, 2, "--pod-name is for running with one"},
		"a folder that does not exist":        {[]string{"--manifests", dir + "/none"}, 2, "no such file"},
		"a file as folder":                    {[]string{"--manifests", file}, 2, "is a file; give the folder"},
		"a kubeconfig without a namespace":    {[]string{"--kubeconfig", file}, 2, "--kubeconfig needs --namespace"},
		"a kubeconfig that is none":           {[]string{"--kubeconfig", file, "--namespace", "n", "--pod-name", "p"}, 2, "--kubeconfig: "},
		"a pod's name that is none":           {[]string{"--kubeconfig", file, "--namespace", "n", "--pod-name", "No_Name"}, 2, "--pod-name"},
		"a network that is none":              {[]string{"--manifests", dir, "--allow-cidr", "10.0.0.0/8,lan"}, 2, `"lan" is not a network`},
		"a size that is none":                 {[]string{"--manifests", dir, "--max-body", "-1"}, 2, "such as 33554432 or 32Mi"},
		"a level that is none":                {[]string{"--manifests", dir, "--log-level", "loud"}, 2, "log-level"},
		"half a TLS pair":                     {[]string{"--manifests", dir, "--tls-cert", file}, 2, "--tls-key"},
		"a timeout shorter than the delay":    {[]string{"--manifests", dir, "--drain-timeout", "1s"}, 2, "raise --drain-timeout"},
		"a word that is no flag":              {[]string{"serve"}, 2, `unexpected argument "serve"`},
		"a flag that is unknown":              {[]string{"--port", "1"}, 2, "-port"},
		"an access log that cannot be opened": {[]string{"--manifests", dir, "--access-log", dir}, 2, "--access-log"},
		"an address that cannot be bound":     {[]string{"--manifests", dir, "--listen", "127.0.0.1:none"}, 1, "--listen"},
		"help":                                {[]string{"--help"}, 0, "Usage: proxy"},
		"version":                             {[]string{"--version"}, 0, "spillway proxy dev"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			code := run(t.Context(), tc.args, &out, &out)
			if code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("exit code %d, want %d; said %q, want %q in it", code, tc.code, out.String(), tc.want)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	dir := t.TempDir()
	s, err := parseFlags([]string{"--manifests", dir, "--allow-cidr", "10.1.2.3/8, fd00::/8", "--allow-cidr", "192.168.0.0/16",
		"--max-body", "1Ki"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var networks []string
	for _, p := range s.allowCIDRs {
		networks = append(networks, p.String())
	}
	want := []string{"10.0.0.0/8", "fd00::/8", "192.168.0.0/16", "127.0.0.0/8", "::1/128"}
	if diff := cmp.Diff(want, networks); diff != "" {
		t.Errorf("networks, loopback among them without a cluster (-want +got):\n%s", diff)
	}
	if s.maxBody != 1024 || s.listen != ":8080" || s.adminListen != ":9090" || s.accessLog != "stdout" || s.drainDelay != 5*time.Second {
		t.Errorf("settings = %+v", s)
	}
}

// listening is the line that tells the bound addresses. Other programs read it: its keys are fixed.
type listening struct{ Msg, Data, Admin string }

// start runs the program and returns its addresses, how to send SIGTERM, and its exit code.
func start(t *testing.T, args ...string) (at listening, terminate func(), code <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logs, stderr := io.Pipe()
	exit := make(chan int, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit <- run(ctx, args, io.Discard, stderr)
		stderr.Close()
	}()
	found, drained := make(chan listening, 1), make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended; <-drained })
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(logs); lines.Scan(); {
			var l listening
			if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
				found <- l
			}
		}
	}()
	select {
	case at = <-found:
	case <-ended:
		t.Fatal("the program ended before it listened")
	}
	return at, cancel, exit
}

func TestStandaloneFromStartToEnd(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Paris"},"finish_reason":"stop"}]}`)
	}))
	defer backend.Close()
	dir := t.TempDir()
	route := fmt.Sprintf(`apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: default, namespace: sirens-echo}
spec:
  chain:
    - {name: tower, url: "%s/v1", model: m}
`, backend.URL)
	if err := os.WriteFile(filepath.Join(dir, "route.yaml"), []byte(route), 0o600); err != nil {
		t.Fatal(err)
	}
	access := filepath.Join(t.TempDir(), "access.log")
	at, terminate, code := start(t, "--manifests", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--drain-delay", "0s", "--access-log", access)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()

	for fetch(t, client, "http://"+at.Admin+"/readyz") != "ok\n" {
		if t.Context().Err() != nil {
			t.Fatal("never ready")
		}
	}
	if got := fetch(t, client, "http://"+at.Data+"/readyz"); got != "ok\n" {
		t.Errorf("readiness on the data port = %q", got)
	}
	resp, err := client.Post("http://"+at.Data+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"sirens-echo/default","messages":[{"role":"user","content":"Capital of France?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(body), "Paris") {
		t.Errorf("answer = %s", body)
	}
	for _, want := range []string{
		`llm_requests_total{code="200"`, `llm_breaker_state{backend="tower",namespace="sirens-echo",state="Closed"} 1`,
		`spillway_table_reload_total{result="applied"} 1`, "go_goroutines",
	} {
		// A request is counted when its answer has gone, a table when it is served already.
		for !strings.Contains(fetch(t, client, "http://"+at.Admin+"/metrics"), want) {
			if t.Context().Err() != nil {
				t.Fatalf("metrics lack %s", want)
			}
		}
	}
	terminate()
	if got := <-code; got != 0 {
		t.Errorf("exit code = %d", got)
	}
	lines, err := os.ReadFile(access)
	if err != nil || !strings.Contains(string(lines), `"route":"sirens-echo/default"`) || strings.Contains(string(lines), "France") {
		t.Errorf("access log = %s, %v", lines, err)
	}
}

func fetch(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
