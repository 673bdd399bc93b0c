package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/standalone"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

// namespaceFile holds the namespace of a pod's ServiceAccount.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// source is where the table comes from.
type source interface {
	// Run brings tables into the store until ctx ends. An error means that it cannot.
	Run(ctx context.Context) error
	// Ready returns nil when the table and what belongs to it is there, else what is missing.
	Ready() error
	// Drain says that this proxy is about to go.
	Drain()
	// Status serves what this proxy knows of routes and pins; nil where a cluster tells it better.
	Status() http.Handler
}

// newSource chooses by the flags. It is made after the pipeline, which follows each table before it does.
func (p *parts) newSource(s *settings) (source, error) {
	if s.manifests != "" {
		return newFolder(p, s.manifests), nil
	}
	cfg, namespace, err := cluster(s)
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Config{
		REST: cfg, Namespace: namespace, Pod: s.podName, PodUID: types.UID(s.podUID),
		Store: p.store, Breakers: p.breakers, Shares: p.admission, Metrics: p.tableMetrics, Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	return fleetSource{f}, nil
}

// cluster returns how to reach the API server, and the proxy's namespace.
func cluster(s *settings) (*rest.Config, string, error) {
	if s.kubeconfig != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		if err != nil {
			return nil, "", usagef("--kubeconfig: %w", err)
		}
		return cfg, s.namespace, nil
	}
	cfg, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, "", usagef("this is not a pod: give --kubeconfig FILE --namespace NS --pod-name NAME, or --manifests DIR to run without a cluster")
	} else if err != nil {
		return nil, "", fmt.Errorf("read the pod's ServiceAccount: %w", err)
	}
	if s.namespace != "" {
		return cfg, s.namespace, nil
	}
	namespace, err := os.ReadFile(namespaceFile)
	if err != nil {
		return nil, "", usagef("the pod's namespace is not known; give --namespace: %w", err)
	}
	return cfg, strings.TrimSpace(string(namespace)), nil
}

// fleetSource is the API server.
type fleetSource struct{ *fleet.Fleet }

func (f fleetSource) Run(ctx context.Context) error {
	f.Fleet.Run(ctx)
	return nil
}

func (fleetSource) Status() http.Handler { return nil }

// folder is a folder of manifests.
type folder struct {
	*parts
	dir  string
	page *standalone.Page
}

func newFolder(p *parts, dir string) *folder {
	f := &folder{parts: p, dir: dir}
	f.page = standalone.NewPage(version, func() v1alpha1.ProxyReportStatus {
		return v1alpha1.ProxyReportStatus{Ready: true, Breakers: fleet.ToReports(p.breakers.Records())}
	})
	p.breakers.OnTransition(func(breaker.Transition) { f.page.Changed() })
	return f
}

func (f *folder) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	keeping.Go(func() { f.page.Run(ctx) })
	return standalone.Run(ctx, f.dir, f.store, f.log.With(slog.String("manifests", f.dir)), func(l *standalone.Loaded) {
		f.tableMetrics.Reload(telemetry.ReloadApplied)
		f.page.Load(l)
	})
}

// Status is the page that stands in for kubectl.
func (f *folder) Status() http.Handler { return f.page }

func (f *folder) Ready() error {
	if !f.store.Ready() {
		return errors.New("the manifests have not been read yet")
	}
	return nil
}

func (*folder) Drain() {}
