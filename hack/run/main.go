// Command run starts a whole Spillway in the foreground: a real control plane, the manager, two proxies and two simulated
// backends, with a route to try. Ctrl-C stops all of it. `make run` builds what it needs and runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spillway-dev/spillway/test/stack"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8081,127.0.0.1:8082", "data addresses of the proxies, one proxy each; port 0 is any free one")
	dir := flag.String("dir", "", "folder for state, logs and kubeconfigs; emptied at the start (default: .run in the repository)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Split(*listen, ","), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen []string, dir string) error {
	root, err := stack.FindRoot()
	if err != nil {
		return err
	}
	if dir == "" {
		dir = filepath.Join(root, ".run")
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{
		Root: root, Dir: dir, Backends: backends, Tokens: tokens, Listen: listen, Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	err = serve(ctx, s)
	fmt.Println("\nstopping ...")
	return errors.Join(err, s.Stop())
}

func serve(ctx context.Context, s *stack.Stack) error {
	if err := s.ApplyRoute(ctx, route(s)); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	fmt.Print(next(s))
	select {
	case <-ctx.Done():
		return nil
	case p := <-s.Ended():
		return fmt.Errorf("%s has ended, its log is %s", p.Name, p.LogPath)
	}
}

// backends and where they listen: fixed, so that the commands in the README can be copied.
var backends = map[string]string{"tower": "127.0.0.1:9101", "hosted": "127.0.0.1:9102"}

// tokens of a simulated answer: short enough to read.
const tokens = 12

// cooldown is far shorter than a real one, so that a person at a terminal sees the tower come back.
const cooldown = 30 * time.Second

func route(s *stack.Stack) string {
	return s.FirstRoute(fmt.Sprintf("threshold: 2, slowAfter: 3s, nonStreamingSlowAfter: 10s, cooldown: %s, coldStartGrace: 5s", cooldown))
}

func next(s *stack.Stack) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	tower := s.Backends["tower"].Addr
	line("\nSpillway is running. Ctrl-C stops all of it.\n")
	line("  kubeconfig   %s", s.Admin().Kubeconfig)
	for i, p := range s.Proxies {
		line("  proxy %d      %s   metrics: http://%s/metrics", i+1, p.URL(), p.Admin)
	}
	for _, name := range slices.Sorted(maps.Keys(backends)) {
		line("  %-12s http://%s", name, s.Backends[name].Addr)
	}
	line("  logs         %s\n", filepath.Join(s.Dir, "logs"))
	line("Try, in another terminal:\n")
	line("  export KUBECONFIG=%s PATH=$PATH:%s:%s", s.Admin().Kubeconfig, filepath.Join(s.Root, "bin"), filepath.Dir(s.KubectlPath()))
	line("  kubectl get llmroutes -A")
	line("  curl -N %s/chat/completions -d '{\"model\":\"sirens-echo/default\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'",
		s.Proxies[0].URL())
	line("  curl -X POST 'http://%s/mode?mode=busy'   # the game starts: now run the call again, twice", tower)
	line("  kubectl get llmroutes -A -o wide                      # Saturated, serving hosted, until when")
	line("  curl -X POST 'http://%s/mode?mode=idle'   # the game is over: after %s it comes back by itself", tower, cooldown)
	line("  kubectl apply -f config/samples/pin.yaml              # or, before the next game: hosted for four hours")
	line("  kubectl spillway explain default -n sirens-echo       # where a request goes now, and why\n")
	return b.String()
}
