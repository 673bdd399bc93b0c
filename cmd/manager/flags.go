package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/controller"
)

const (
	// namespaceFile holds the namespace of a Pod's ServiceAccount.
	namespaceFile    = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	defaultNamespace = "spillway-system"
)

// settings are the flags, read.
type settings struct {
	controller                    controller.Options
	leaderElect, version          bool
	metricsAddress, healthAddress string
	logLevel                      slog.Level
}

// parseFlags declares the flags on set, beside those that are there (--kubeconfig), and reads args. With --help it prints
// the usage and ends the process.
func parseFlags(set *flag.FlagSet, args []string) (*settings, error) {
	f := &settings{}
	var watch string
	set.StringVar(&f.controller.Namespace, "namespace", ownNamespace(namespaceFile), "The manager's own namespace, where the table, the lease and the proxies' reports are.")
	set.StringVar(&f.controller.OwnerDeployment, "owner-deployment", "", "The manager's Deployment in --namespace: what the manager writes there is deleted with it. Empty: it stays.")
	set.StringVar(&watch, "watch-namespaces", "", "Comma-separated namespaces whose routes and pins count. Empty: all.")
	set.BoolVar(&f.leaderElect, "leader-elect", false, "Elect a leader among several replicas; it alone publishes and writes status.")
	set.StringVar(&f.metricsAddress, "metrics-bind-address", ":8080", "Address of /metrics; 0 turns it off.")
	set.StringVar(&f.healthAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz; 0 turns it off.")
	set.StringVar(&f.controller.ClusterDomain, "cluster-domain", compiler.DefaultClusterDomain, "Domain that ends the DNS names of Services.")
	set.DurationVar(&f.controller.MaxPin, "max-pin", compiler.DefaultMaxPin, "The longest that a BackendPin may last.")
	set.DurationVar(&f.controller.PinRetention, "pin-retention", controller.DefaultPinRetention, "How long an expired BackendPin stays before it is deleted.")
	set.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "Least level that is logged: DEBUG, INFO, WARN or ERROR.")
	set.BoolVar(&f.version, "version", false, "Print the version and exit.")
	set.DurationVar(&f.controller.ReportTimeout, hiddenReportTimeout, controller.DefaultReportTimeout, "")
	set.Usage = func() { usage(set) }
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	for name := range strings.SplitSeq(watch, ",") {
		if name = strings.TrimSpace(name); name != "" {
			f.controller.WatchNamespaces = append(f.controller.WatchNamespaces, name)
		}
	}
	return f, f.check()
}

// hiddenReportTimeout is a flag for tests: proxies renew their reports every 15 s, whatever it says.
const hiddenReportTimeout = "report-timeout"

// usage prints all flags but the hidden one.
func usage(set *flag.FlagSet) {
	shown := flag.NewFlagSet(set.Name(), flag.ContinueOnError)
	shown.SetOutput(set.Output())
	set.VisitAll(func(f *flag.Flag) {
		if f.Name != hiddenReportTimeout {
			shown.Var(f.Value, f.Name, f.Usage)
			shown.Lookup(f.Name).DefValue = f.DefValue
		}
	})
	_, _ = io.WriteString(set.Output(), "Usage: manager [flags]\n\nThe control plane of Spillway.\n\n")
	shown.PrintDefaults()
}

// check refuses what would fail later and less clearly.
func (s *settings) check() error {
	for _, name := range append([]string{s.controller.Namespace}, s.controller.WatchNamespaces...) {
		if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: %s", name, faults[0])
		}
	}
	if s.controller.MaxPin <= 0 || s.controller.PinRetention <= 0 || s.controller.ReportTimeout <= 0 {
		return errors.New("--max-pin and --pin-retention must be longer than 0s")
	}
	return nil
}

// ownNamespace is that of the Pod's ServiceAccount, where there is one.
func ownNamespace(file string) string {
	data, err := os.ReadFile(file)
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		return name
	}
	return defaultNamespace
}
