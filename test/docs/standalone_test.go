package docs

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-dev/spillway/hack/simbackend/sim"
)

var curlBody = regexp.MustCompile(`curl \S+ -d '([^']+)'`)

// The first two scripts of docs/standalone.md, as they stand there, apart from ports and the address of the tower.
func TestStandaloneScriptServes(t *testing.T) {
	tower, err := sim.Start(sim.Config{Name: "tower", Tokens: 1}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tower.Close()
	script, call := standaloneScripts(t)
	script = strings.NewReplacer("make build\n", "", "http://127.0.0.1:11434", tower.URL, "127.0.0.1:8080", "127.0.0.1:0",
		"127.0.0.1:9090", "127.0.0.1:0 --drain-delay 0s", "bin/proxy", "exec bin/proxy").Replace(script)

	address := start(t, script)
	resp, err := http.Post("http://"+address+"/v1/chat/completions", "application/json", strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Spillway-Backend") != "tower" {
		t.Errorf("the page's call gets %s from %q: %s", resp.Status, resp.Header.Get("X-Spillway-Backend"), body)
	}
}

// standaloneScripts returns the page's first script and the body of the call in its second.
func standaloneScripts(t *testing.T) (script, call string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "standalone.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := page{path: "docs/standalone.md", text: string(text)}
	fenced, _ := p.blocks()
	if len(fenced) < 2 || fenced[0].language != "sh" {
		t.Fatal("the page does not begin with two scripts")
	}
	match := curlBody.FindStringSubmatch(fenced[1].text)
	if match == nil {
		t.Fatal("the second script is no call with curl")
	}
	return fenced[0].text, match[1]
}

// start runs the script in a folder of its own until the test ends, and returns where its proxy listens, once it has read
// the manifests.
func start(t *testing.T, script string) (address string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(t, "proxy"), filepath.Join(dir, "bin", "proxy")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = dir
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = io.Copy(io.Discard, logs)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the proxy ends with: %v", err)
		}
	})
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		var entry struct{ Msg, Data string }
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			t.Fatalf("a line of the log is no JSON: %s", lines.Text())
		}
		switch entry.Msg {
		case "listening":
			address = entry.Data
		case "manifests loaded":
			return address
		}
	}
	t.Fatal("the proxy has ended before it had read the manifests")
	return ""
}
