package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped by the build.
var version = "dev"

func main() {
	ctx, drain := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		signal.Stop(signals) // before the drain begins, so that a second signal surely ends the process at once
		drain()
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
