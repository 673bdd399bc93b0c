package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// version is stamped by the build.
var version = "dev"

func main() {
	flags, err := parseFlags(flag.CommandLine, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(2)
	}
	if flags.version {
		fmt.Println("spillway manager", version)
		return
	}
	log := telemetry.NewLogger(os.Stderr, flags.logLevel)
	if err := run(ctrl.SetupSignalHandler(), flags, log); err != nil {
		log.Error("the manager ends", "error", err.Error())
		os.Exit(1)
	}
}

// run returns when ctx ends and everything has stopped: the lease is released by then.
func run(ctx context.Context, f *settings, log *slog.Logger) error {
	logger := logr.FromSlogHandler(log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	log.Info("starting", "version", version, "namespace", f.controller.Namespace, "watchNamespaces", f.controller.WatchNamespaces)

	cluster, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	f.controller.Metrics = telemetry.NewManager(metrics.Registry)
	options, err := controller.ManagerOptions(cluster, f.controller, manager.Options{
		Logger:                 logger,
		LeaderElection:         f.leaderElect,
		Metrics:                metricsserver.Options{BindAddress: f.metricsAddress},
		HealthProbeBindAddress: f.healthAddress,
	})
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(cluster, options)
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add health check: %w", err)
	}
	if err := controller.Setup(mgr, f.controller); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
