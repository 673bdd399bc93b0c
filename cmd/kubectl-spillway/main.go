package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spillway-dev/spillway/internal/plugin"
)

// version is stamped by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// With the first signal the command ends in good order; a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(plugin.Run(ctx, plugin.SystemEnv(version), os.Args))
}
