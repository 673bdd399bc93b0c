package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/klog/v2"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/server"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
	"github.com/spillway-dev/spillway/internal/telemetry/otlp"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// run is the program: it serves until ctx ends, drains, and returns the exit code when all has ended.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "proxy: %v (see proxy --help)\n", err)
		return exitUsage
	case s.version:
		fmt.Fprintln(stdout, "spillway proxy", version)
		return exitOK
	}
	log := telemetry.NewLogger(stderr, s.logLevel)
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	takeStandardLog(log)
	err = serve(ctx, s, stdout, log)
	var usage errUsage
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "proxy: %v (see proxy --help)\n", err)
		return exitUsage
	case err != nil:
		log.Error("the proxy ends", "error", err.Error())
		return exitFailure
	}
	return exitOK
}

// parts are what a proxy is put together from.
type parts struct {
	log          *slog.Logger
	registry     *prometheus.Registry
	tableMetrics *telemetry.Table
	store        *table.Store
	breakers     *breaker.Registry
	admission    *admission.Admission
	callers      callers
	pipeline     *proxy.Proxy
	source       source
	server       *server.Server
}

func serve(ctx context.Context, s *settings, stdout io.Writer, log *slog.Logger) error {
	access, closeAccess, err := openAccessLog(s.accessLog, stdout)
	if err != nil {
		return err
	}
	defer closeAccess()
	tracer, stopTraces, err := otlp.Start(ctx, otlp.Config{Service: "spillway-proxy", Version: version, Instance: s.podName,
		Getenv: os.Getenv, Log: log})
	if err != nil {
		return errUsage{err}
	}
	defer stopTraces()
	p, err := assemble(s, access, tracer, log)
	if err != nil {
		return err
	}
	log.Info("starting", "version", version, "pod", s.podName)
	log.Info("listening", "data", p.server.Addr(), "admin", p.server.AdminAddr())
	return p.run(ctx)
}

// assemble makes the parts and binds the ports; nothing runs yet.
func assemble(s *settings, access telemetry.AccessLog, tracer *telemetry.Tracer, log *slog.Logger) (*parts, error) {
	p := &parts{log: log, registry: prometheus.NewRegistry(), store: table.NewStore()}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.tableMetrics = telemetry.NewTable(p.registry)
	p.breakers = breaker.New(breaker.Options{Self: s.podName})
	p.breakers.OnTransition(p.logTransition)
	p.admission = admission.New(admission.Options{})
	p.registry.MustRegister(&telemetry.StateCollector{
		Table: p.store.Load, Now: time.Now,
		Breaker: func(id table.BackendID) string { return string(p.breakers.View(id, breaker.DefaultEndpoint).State) },
	})
	var err error
	if p.callers, err = newCallers(s, log); err != nil {
		return nil, err
	}
	p.pipeline = proxy.New(proxy.Config{
		Store: p.store, Breakers: p.breakers, Admission: p.admission, Metrics: telemetry.NewProxy(p.registry),
		AccessLog: access, Tracer: tracer, Log: log, Ready: func() error { return p.server.Ready() },
		Authorize: p.authorizer(), MaxBody: s.maxBody, BodyBudget: limitMemory(), AllowCIDRs: s.allowCIDRs, Version: version,
	})
	if p.source, err = p.newSource(s); err != nil {
		return nil, err
	}
	cfg := s.server()
	cfg.Handler, cfg.Metrics = p.pipeline.Handler(), promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{})
	cfg.Status, cfg.Ready, cfg.OnDrain, cfg.Log = p.source.Status(), p.ready, p.source.Drain, log
	p.server, err = server.New(*cfg)
	return p, err
}

// ready returns nil when this proxy knows its routes and its callers, else what is missing.
func (p *parts) ready() error {
	if err := p.source.Ready(); err != nil {
		return err
	}
	return p.callers.Ready()
}

// run serves until ctx ends or a part fails, then takes the parts down: the server first, so that what it needs is there
// to its end.
func (p *parts) run(ctx context.Context) error {
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	background, stopBackground := context.WithCancel(context.Background())
	defer stopBackground()

	var running sync.WaitGroup
	var sourceErr, callersErr error
	running.Go(func() {
		if sourceErr = p.source.Run(background); sourceErr != nil {
			stopServing()
		}
	})
	running.Go(func() {
		if callersErr = p.callers.Run(background); callersErr != nil {
			stopServing()
		}
	})
	running.Go(func() { p.breakers.Run(background, p.pipeline) })

	err := p.server.Run(serving)
	stopBackground()
	running.Wait()
	p.pipeline.Close()
	return errors.Join(err, sourceErr, callersErr)
}

// logTransition says what happens to a backend, by its name in the chains.
func (p *parts) logTransition(t breaker.Transition) {
	attrs := []any{"namespace", t.Namespace, "backends", t.Names, "from", string(t.From), "to", string(t.To),
		"reason", string(t.Reason), "message", t.Message, "adopted", t.Adopted}
	if !t.RetryAt.IsZero() {
		attrs = append(attrs, "retryAt", t.RetryAt.UTC().Format(time.RFC3339))
	}
	p.log.Info("breaker", attrs...)
}

// openAccessLog returns the access log and what writes the rest of it.
func openAccessLog(where string, stdout io.Writer) (telemetry.AccessLog, func(), error) {
	to, closeFile := stdout, func() error { return nil }
	switch where {
	case accessLogOff:
		return telemetry.AccessLog{}, func() {}, nil
	case accessLogStdout:
	default:
		file, err := os.OpenFile(where, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			return telemetry.AccessLog{}, nil, usagef("--access-log: %w", err)
		}
		to, closeFile = file, file.Close
	}
	buffered := telemetry.NewBufferedWriter(to)
	closeAll := func() { _ = errors.Join(buffered.Close(), closeFile()) } // nobody is left to tell
	return telemetry.NewAccessLog(buffered), closeAll, nil
}
