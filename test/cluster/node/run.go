//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

// The test binary runs three times, one inside the other. This variable says which one it is; without it, the outermost.
const stageVariable = "SPILLWAY_NODE_STAGE"

const (
	stageInit  = "init"  // process 1 of the namespaces: mounts, then waits for the tests and reaps what nobody waits for
	stageTests = "tests" // the tests themselves, and the node that they start
)

// cgroupVariable names the control group that Pods live in.
const cgroupVariable = "SPILLWAY_NODE_CGROUP"

// Run is the body of TestMain: it runs tests in namespaces of their own and returns the exit status. An interruption ends
// everything in them at once.
func Run(tests func() int) int {
	var status int
	var err error
	switch os.Getenv(stageVariable) {
	case stageTests:
		return tests()
	case stageInit:
		status, err = runInit()
	default:
		status, err = runOutside()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 1
	}
	return status
}

// runOutside makes the control group, starts process 1 in new namespaces, and cleans up after it.
func runOutside() (status int, err error) {
	group, err := newCgroup(fmt.Sprintf("%s%d", cgroupPrefix, os.Getpid()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, group.remove()) }()

	// The kernel kills process 1 when the thread that made it ends, so this one has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stageVariable+"="+stageInit, cgroupVariable+"="+group.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // a Ctrl-C is for us; we pass it on as an end without delay
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("new namespaces: %w", err)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupted)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state says it
	}()
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode(), nil
	case s := <-interrupted:
		_ = cmd.Process.Kill() // fails only where it has ended already
		<-ended
		return 128 + int(s.(syscall.Signal)), nil
	}
}

// runInit prepares the file system, starts the tests and reaps every process that is left to process 1 until they end.
func runInit() (status int, err error) {
	if err := isolate(); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	environment := append(withoutStage(os.Environ()), stageVariable+"="+stageTests)
	tests, err := syscall.ForkExec(self, append([]string{self}, os.Args[1:]...), &syscall.ProcAttr{
		Env: environment, Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("start the tests: %w", err)
	}
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && pid != tests:
			continue
		case err != nil:
			return 0, fmt.Errorf("wait for the tests: %w", err)
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		}
		return ws.ExitStatus(), nil
	}
}

func withoutStage(environment []string) []string {
	kept := make([]string, 0, len(environment))
	for _, entry := range environment {
		if !strings.HasPrefix(entry, stageVariable+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}
