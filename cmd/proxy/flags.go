package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/spillway-dev/spillway/internal/proxy"
	"github.com/spillway-dev/spillway/internal/server"
)

// settings are the flags, read.
type settings struct {
	listen, adminListen      string
	manifests                string
	kubeconfig, namespace    string
	podName, podUID          string
	allowCIDRs               []netip.Prefix
	drainDelay, drainTimeout time.Duration
	maxBody                  int64
	tlsCert, tlsKey          string
	callers                  callerSettings
	logLevel                 slog.Level
	accessLog                string
	version                  bool
}

// errUsage marks what the person who wrote the command line can mend.
type errUsage struct{ error }

func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// Values of --access-log beside a file's path.
const (
	accessLogStdout = "stdout"
	accessLogOff    = "off"
)

// parseFlags reads args. An error is flag.ErrHelp or an errUsage.
func parseFlags(args []string, output io.Writer) (*settings, error) {
	s := &settings{maxBody: proxy.DefaultMaxBody}
	set := flag.NewFlagSet("proxy", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors are told once, by run
	s.declare(set)
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(output, "Usage: proxy --kubeconfig FILE --namespace NS --pod-name NAME [flags]\n"+
			"       proxy --manifests DIR [flags]\n"+
			"       proxy [flags]                  in a pod\n\n")
		set.SetOutput(output)
		set.PrintDefaults()
		return nil, err
	} else if err != nil {
		return nil, errUsage{err}
	}
	if set.NArg() > 0 {
		return nil, usagef("unexpected argument %q: all options begin with --", set.Arg(0))
	}
	return s, s.check()
}

func (s *settings) declare(set *flag.FlagSet) {
	set.StringVar(&s.listen, "listen", ":8080", "`address` for callers")
	set.StringVar(&s.adminListen, "admin-listen", ":9090", "`address` of /metrics, /healthz, /readyz and, with --manifests, /statusz")
	set.StringVar(&s.manifests, "manifests", "", "run without a cluster, from the YAML files in this `folder`")
	set.StringVar(&s.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server; without it and --manifests: the pod's own account")
	set.StringVar(&s.namespace, "namespace", "", "namespace of the table and the reports (default: the pod's own)")
	set.StringVar(&s.podName, "pod-name", "", "`name` of this proxy in the fleet (default: $POD_NAME, else the host's name)")
	set.StringVar(&s.podUID, "pod-uid", "", "`UID` of the pod, so that its report is deleted with it")
	set.Func("allow-cidr", "`network` that backends may be in although it is loopback or link-local, such as 127.0.0.0/8; may be repeated, or several with commas", s.addCIDRs)
	set.DurationVar(&s.drainDelay, "drain-delay", server.DefaultDrainDelay, "how long the listener stays open after SIGTERM")
	set.DurationVar(&s.drainTimeout, "drain-timeout", server.DefaultDrainTimeout, "how long running requests may go on, counted from SIGTERM")
	set.Func("max-body", "largest request body, in `bytes` or such as 32Mi (default 32Mi)", s.setMaxBody)
	set.StringVar(&s.tlsCert, "tls-cert", "", "`file` with the certificate for --listen (PEM), read again when it changes")
	set.StringVar(&s.tlsKey, "tls-key", "", "`file` with its key (PEM)")
	s.callers.declare(set)
	set.TextVar(&s.logLevel, "log-level", slog.LevelInfo, "least `level` that is logged: DEBUG, INFO, WARN or ERROR")
	set.StringVar(&s.accessLog, "access-log", accessLogStdout, "where one line per request goes: stdout, off, or the path of a `file`")
	set.BoolVar(&s.version, "version", false, "print the version and exit")
}

func (s *settings) addCIDRs(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(one))
		if err != nil {
			return fmt.Errorf("%q is not a network such as 127.0.0.0/8 or ::1/128", one)
		}
		s.allowCIDRs = append(s.allowCIDRs, prefix.Masked())
	}
	return nil
}

func (s *settings) setMaxBody(text string) error {
	quantity, err := resource.ParseQuantity(text)
	bytes, whole := quantity.AsInt64()
	if err != nil || !whole || bytes <= 0 {
		return errors.New("want a positive number of bytes, such as 33554432 or 32Mi")
	}
	s.maxBody = bytes
	return nil
}

// check refuses combinations that make no sense.
func (s *settings) check() error {
	if s.version {
		return nil
	}
	if err := s.server().Validate(); err != nil {
		return errUsage{err}
	}
	if s.accessLog == "" {
		return usagef("--access-log is empty: give stdout, off or the path of a file")
	}
	if err := s.callers.check(s.manifests != ""); err != nil {
		return err
	}
	if s.manifests != "" {
		return s.checkStandalone()
	}
	if s.kubeconfig != "" && s.namespace == "" {
		return usagef("--kubeconfig needs --namespace: the one in which the manager publishes the table, usually spillway-system")
	}
	if s.podName == "" {
		s.podName = ownName()
	}
	if problems := validation.IsDNS1123Subdomain(s.podName); len(problems) > 0 {
		return usagef("the name of this proxy, %q, cannot name a report: give a better one with --pod-name (%s)", s.podName, problems[0])
	}
	return nil
}

// server is what the flags say of the server.
func (s *settings) server() *server.Config {
	return &server.Config{
		Listen: s.listen, AdminListen: s.adminListen, TLSCert: s.tlsCert, TLSKey: s.tlsKey,
		DrainDelay: s.drainDelay, DrainTimeout: s.drainTimeout,
	}
}

// loopback is allowed without a cluster: there the proxy runs on the machine of whoever wrote the manifests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

func (s *settings) checkStandalone() error {
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", s.kubeconfig}, {"namespace", s.namespace}, {"pod-name", s.podName}, {"pod-uid", s.podUID},
	} {
		if flag.value != "" {
			return usagef("--manifests runs without a cluster, --%s is for running with one: give one or the other", flag.name)
		}
	}
	info, err := os.Stat(s.manifests)
	if err != nil {
		return usagef("--manifests: %w", err)
	}
	if !info.IsDir() {
		return usagef("--manifests: %s is a file; give the folder that it is in", s.manifests)
	}
	s.allowCIDRs = append(s.allowCIDRs, loopback...)
	return nil
}

// ownName is the pod's name where it was handed down, else the host's, which is the same in a pod.
func ownName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "" // check says what to do
	}
	return strings.ToLower(name)
}
