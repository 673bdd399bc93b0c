package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// proxies are the two that clients are put before: their addresses for callers.
type proxies struct {
	plain   string
	overTLS string
	pair    *keyPair // of overTLS
}

// startProxies builds the proxy with the race detector, and starts it without TLS and with it, each with manifests of its own.
func startProxies(t *testing.T, plain, overTLS string) *proxies {
	t.Helper()
	program := filepath.Join(t.TempDir(), "proxy")
	command(t, "../..", "go", "build", "-race", "-o", program, "./cmd/proxy")
	pair := newKeyPair(t)
	certFile, keyFile := pair.write(t)
	return &proxies{
		plain:   startProxy(t, program, plain),
		overTLS: startProxy(t, program, overTLS, "--tls-cert", certFile, "--tls-key", keyFile),
		pair:    pair,
	}
}

// newTap stands before one of the two.
func (p *proxies) newTap(t *testing.T, overTLS bool) *tap {
	t.Helper()
	if overTLS {
		return newTap(t, p.overTLS, p.pair)
	}
	return newTap(t, p.plain, nil)
}

// startProxy starts the program and returns the address for callers when it has read the manifests.
func startProxy(t *testing.T, program, manifests string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "routes.yaml"), []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"--manifests", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--drain-delay", "0s", "--access-log", "off"}, more...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := &proxyLog{ready: make(chan string, 1), ended: make(chan struct{})}
	go log.read(stderr)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended, which Wait tells
		<-log.ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("the proxy ended badly: %v\n%s", err, log.text())
		}
	})
	select {
	case address := <-log.ready:
		return address
	case <-log.ended:
		t.Fatalf("the proxy ended before it served:\n%s", log.text())
	}
	return ""
}

// proxyLog follows what the proxy logs.
type proxyLog struct {
	ready chan string // gets the address for callers
	ended chan struct{}

	mu  sync.Mutex
	all bytes.Buffer
}

func (l *proxyLog) read(from io.Reader) {
	defer close(l.ended)
	address := ""
	for lines := bufio.NewScanner(from); lines.Scan(); {
		l.mu.Lock()
		l.all.Write(append(lines.Bytes(), '\n'))
		l.mu.Unlock()
		var line struct{ Msg, Data string }
		_ = json.Unmarshal(lines.Bytes(), &line) // the race detector's words are no JSON
		switch line.Msg {
		case "listening":
			address = line.Data
		case "manifests loaded":
			l.ready <- address
		}
	}
}

func (l *proxyLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
