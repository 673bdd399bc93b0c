package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// proxy is the one process under test.
var proxy struct {
	data, admin string // addresses
	manifests   string // folder
	log         lines
}

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait more than they work, so more of them run at once than there are processors.
	_ = flag.Set("test.parallel", "24")
	os.Exit(withProxy(m.Run))
}

// withProxy builds the proxy, runs it while run does, and fails when it ends badly: with a race, a panic, or requests that
// hold up its end.
func withProxy(run func() int) int {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		return failure("no place for the program:", err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "proxy")
	build := exec.Command("go", "build", "-race", "-o", program, "./cmd/proxy")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return failure("build:", err, string(out))
	}
	proxy.manifests = filepath.Join(dir, "manifests")
	if err := os.Mkdir(proxy.manifests, 0o700); err != nil {
		return failure("no place for the manifests:", err)
	}
	cmd := exec.Command(program, "--manifests", proxy.manifests, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--drain-delay", "0s", "--drain-timeout", "10s", "--max-body", "10Mi", "--access-log", filepath.Join(dir, "access.log"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return failure("stderr:", err)
	}
	if err := cmd.Start(); err != nil {
		return failure("start:", err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go follow(stderr, ready, ended)
	select {
	case <-ready:
	case <-ended:
		return failure("the proxy ended before it served:", proxy.log.String())
	}
	code := run()
	return max(code, stop(cmd, ended))
}

// follow reads the proxy's log to its end.
func follow(stderr io.Reader, ready, ended chan struct{}) {
	defer close(ended)
	for in := bufio.NewScanner(stderr); in.Scan(); {
		_, _ = fmt.Fprintln(&proxy.log, in.Text()) // never fails
		var line struct{ Msg, Data, Admin string }
		_ = json.Unmarshal(in.Bytes(), &line) // the race detector's words are no JSON
		switch {
		case line.Msg == "listening":
			proxy.data, proxy.admin = line.Data, line.Admin
		case line.Msg == "manifests loaded" && ready != nil:
			close(ready)
			ready = nil
		}
	}
}

// stop asks the proxy to end, and judges how it did.
func stop(cmd *exec.Cmd, ended <-chan struct{}) int {
	_ = cmd.Process.Signal(syscall.SIGTERM) // fails where it has ended, which Wait tells
	<-ended
	err := cmd.Wait()
	log := proxy.log.String()
	for _, bad := range []string{"DATA RACE", "panic", "drain timeout"} {
		if strings.Contains(log, bad) {
			err = errors.Join(err, errors.New("its log has the words "+bad))
		}
	}
	if err != nil {
		return failure("the proxy ended badly:", err, log)
	}
	return 0
}

func failure(words ...any) int {
	_, _ = fmt.Fprintln(os.Stderr, words...)
	return 1
}

// lines is a buffer that one goroutine writes and others read.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
