package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// asProgram makes the test binary be the program, for tests that need real signals.
const asProgram = "SPILLWAY_TEST_AS_PROGRAM"

func TestSecondSignalEndsAtOnce(t *testing.T) {
	args := []string{"--manifests", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--drain-delay", "1h", "--drain-timeout", "1h"}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	said := map[string]bool{}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		var line listening
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			t.Fatalf("not a log line: %s", lines.Text())
		}
		said[line.Msg] = true
		switch line.Msg {
		case "listening":
			for fetch(t, client, "http://"+line.Admin+"/readyz") != "ok\n" { // until the manifests are read
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
		case "draining":
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("the program ended with %v, want the signal", err)
	}
	if !said["draining"] || said["drained"] {
		t.Errorf("the program said %v, want that it drains and not that it has", said)
	}
}
