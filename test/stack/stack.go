package stack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// Namespace is where the manager, the proxies and the table live.
	Namespace = "spillway-system"
	// managerAccount and proxyAccount are the ServiceAccounts that config/rbac gives roles to.
	managerAccount = "spillway-manager"
	proxyAccount   = "spillway-proxy"
	// stopGrace is how long a program may take to end.
	stopGrace = 30 * time.Second
)

// Options say what to start.
type Options struct {
	// Root of the repository: programs are taken from bin/ in it, manifests from config/.
	Root string
	// Dir receives state, logs and kubeconfigs. It must exist.
	Dir string
	// Backends are the simulated backends to start: name and address; port 0 is any free one.
	Backends map[string]string
	// Tokens is the length of an answer of theirs, unless a call asks for less.
	Tokens int
	// Listen holds the data address of each proxy to start, for example "127.0.0.1:8081"; port 0 is any free one.
	Listen []string
	// Audit has all writes through the API server noted, see ReadAudit.
	Audit bool
	// ManagerMetrics is the address of the managers' metrics; empty is any free one.
	ManagerMetrics string
	// Progress receives one line per step; nil discards them.
	Progress io.Writer
}

// Stack is a running Spillway.
type Stack struct {
	Options
	Backends map[string]*Backend
	Manager  *Supervised
	Proxies  []*Proxy

	plane   *controlPlane
	more    []*Supervised // managers beside the first
	started int           // proxies, ever
}

// Proxy is a proxy process with its addresses.
type Proxy struct {
	*Process
	server string // how it reaches the API server; empty for directly
	Data   string // host:port of the data port
	Admin  string // host:port of the admin port
}

// URL is the base URL for OpenAI clients.
func (p *Proxy) URL() string { return "http://" + p.Data + "/v1" }

// FindRoot returns the root of the repository, looking upwards from the working directory.
func FindRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), "module github.com/spillway-dev/spillway\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository: no go.mod of github.com/spillway-dev/spillway above")
		}
	}
}

// Start starts the stack. When it fails, what it had started is stopped again.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	s := &Stack{Options: o, Backends: map[string]*Backend{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := os.MkdirAll(s.logs(), 0o700); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		say string
		do  func(context.Context) error
	}{
		{"etcd and kube-apiserver", s.startControlPlane},
		{"Spillway's kinds, roles and admission policies", s.install},
		{"simulated backends: " + strings.Join(slices.Sorted(maps.Keys(o.Backends)), ", "), s.startBackends},
		{"manager", s.StartManager},
		{fmt.Sprintf("%d proxies", len(o.Listen)), s.startProxies},
	} {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("start %s: %w", step.say, err)
		}
		fmt.Fprintf(s.Progress, "  started %-48s %5.1fs\n", step.say, time.Since(began).Seconds())
	}
	return s, nil
}

// Stop ends everything, callers' side first, and reports every program that did not end well.
func (s *Stack) Stop() error {
	var errs []error
	var wg sync.WaitGroup
	var mu sync.Mutex
	stop := func(stop func(time.Duration) error) {
		wg.Go(func() {
			err := stop(stopGrace)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	for _, p := range s.Proxies {
		stop(p.Stop)
	}
	wg.Wait()
	for _, m := range append(s.more, s.Manager) {
		if m != nil {
			stop(m.Stop)
		}
	}
	for _, b := range s.Backends {
		stop(b.Stop)
	}
	wg.Wait()
	if s.plane != nil {
		errs = append(errs, s.plane.stop())
	}
	return errors.Join(errs...)
}

// KubectlPath is the kubectl that goes with the API server.
func (s *Stack) KubectlPath() string { return s.plane.kubectl }

// Admin is the cluster's administrator.
func (s *Stack) Admin() *User { return s.plane.admin }

// Client talks to the API server as the administrator.
func (s *Stack) Client() kubernetes.Interface { return s.plane.client }

// Config is how the administrator reaches the API server, without a limit on the rate of requests.
func (s *Stack) Config() (*rest.Config, error) {
	config, err := clientConfig(s.Admin().Kubeconfig)
	if err == nil {
		config.QPS = -1
	}
	return config, err
}

// AddUser adds a person with a client certificate and no permissions.
func (s *Stack) AddUser(name string, groups ...string) (*User, error) {
	return s.plane.addUser(name, groups...)
}

// StopAPIServer ends the API server; etcd keeps its data.
func (s *Stack) StopAPIServer() error { return s.plane.plane.APIServer.Stop() }

// APIServer is the address of the API server, host:port.
func (s *Stack) APIServer() string { return strings.TrimPrefix(s.plane.url(), "https://") }

// LoseData ends etcd and the API server, and brings them back without anything that was stored. Spillway's kinds, roles and
// policies are applied again, and its programs get new identities, as they would from a kubelet; all else is gone.
func (s *Stack) LoseData(ctx context.Context) error {
	if err := errors.Join(s.plane.loseData(ctx), s.install(ctx)); err != nil {
		return err
	}
	var errs []error
	for i := range 1 + len(s.more) {
		_, _, err := s.plane.serviceAccount(ctx, managerAccount, managerName(i), "")
		errs = append(errs, err)
	}
	for _, p := range s.Proxies {
		_, _, err := s.plane.serviceAccount(ctx, proxyAccount, p.Name, p.server)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// StartAPIServer starts it again at the same address.
func (s *Stack) StartAPIServer(ctx context.Context) error {
	if err := s.plane.plane.APIServer.Start(); err != nil {
		return err
	}
	return s.plane.ready(ctx)
}

func (s *Stack) logs() string                { return filepath.Join(s.Dir, "logs") }
func (s *Stack) binary(name string) string   { return filepath.Join(s.Root, "bin", name) }
func (s *Stack) manifest(path string) string { return filepath.Join(s.Root, "config", path) }

func (s *Stack) startControlPlane(ctx context.Context) (err error) {
	if s.plane, err = startControlPlane(s.Dir, s.Audit); err != nil {
		return err
	}
	return s.plane.ready(ctx)
}

func (s *Stack) install(ctx context.Context) error {
	return Eventually(ctx, func() error { // the policies refer to kinds that take a moment to be served
		_, err := s.Admin().Kubectl(ctx, "apply", "--server-side", "-k", s.manifest("default"))
		return err
	})
}

// StartManager starts the manager, the first time or again after it was stopped.
func (s *Stack) StartManager(ctx context.Context) (err error) {
	s.Manager, err = s.startManager(ctx, 0, cmp.Or(s.ManagerMetrics, "127.0.0.1:0"))
	return err
}

// AddManager starts another replica of the manager, which stands by.
func (s *Stack) AddManager(ctx context.Context) (*Supervised, error) {
	m, err := s.startManager(ctx, 1+len(s.more), "127.0.0.1:0")
	if err == nil {
		s.more = append(s.more, m)
	}
	return m, err
}

// managerName is the pod of a manager: 0 is the first.
func managerName(i int) string { return fmt.Sprintf("spillway-manager-%d", i+1) }

func (s *Stack) startManager(ctx context.Context, i int, metrics string) (*Supervised, error) {
	user, _, err := s.plane.serviceAccount(ctx, managerAccount, managerName(i), "")
	if err != nil {
		return nil, err
	}
	name := "manager"
	if i > 0 {
		name = fmt.Sprintf("manager-%d", i+1)
	}
	return supervise(spec{name: name, path: s.binary("manager"), logDir: s.logs(), args: []string{
		"--kubeconfig", user.Kubeconfig, "--namespace", Namespace, "--leader-elect",
		"--metrics-bind-address", metrics, "--health-probe-bind-address", "127.0.0.1:0",
	}})
}

func (s *Stack) startProxies(ctx context.Context) error {
	for _, listen := range s.Listen {
		if _, err := s.StartProxy(ctx, listen); err != nil {
			return err
		}
	}
	return nil
}

// StartProxy starts one more proxy and waits until it is ready.
func (s *Stack) StartProxy(ctx context.Context, listen string) (*Proxy, error) {
	return s.StartProxyVia(ctx, listen, "")
}

// StartProxyVia is StartProxy for one that reaches the API server through a forwarder at host:port.
func (s *Stack) StartProxyVia(ctx context.Context, listen, forwarder string) (*Proxy, error) {
	server := ""
	if forwarder != "" {
		server = "https://" + forwarder
	}
	s.started++
	name := fmt.Sprintf("spillway-proxy-%d", s.started)
	user, pod, err := s.plane.serviceAccount(ctx, proxyAccount, name, server)
	if err != nil {
		return nil, err
	}
	p, err := s.startProxy(ctx, name, listen, []string{
		"--kubeconfig", user.Kubeconfig, "--namespace", Namespace, "--pod-name", name, "--pod-uid", string(pod.UID),
	})
	if p != nil {
		p.server = server
	}
	return p, err
}

// StopProxy ends a proxy for good.
func (s *Stack) StopProxy(p *Proxy) error {
	s.Proxies = slices.DeleteFunc(s.Proxies, func(other *Proxy) bool { return other == p })
	return p.Stop(stopGrace)
}

func (s *Stack) startProxy(ctx context.Context, name, listen string, identity []string) (*Proxy, error) {
	p := &Proxy{}
	listening := make(chan struct{})
	process, err := start(spec{name: name, path: s.binary("proxy"), logDir: s.logs(), args: append(identity,
		"--listen", listen, "--admin-listen", "127.0.0.1:0", "--allow-cidr", "127.0.0.0/8", "--drain-delay", "0s"),
		onLine: func(line []byte) {
			var entry struct{ Msg, Data, Admin string }
			if p.Data == "" && json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
				p.Data, p.Admin = entry.Data, entry.Admin
				close(listening)
			}
		}})
	if err != nil {
		return nil, err
	}
	p.Process = process
	s.Proxies = append(s.Proxies, p)
	if err := process.await(ctx, listening, "listening"); err != nil {
		return nil, err
	}
	return p, Eventually(ctx, func() error { return get(ctx, "http://"+p.Data+"/readyz", nil) })
}

// ApplyRoute applies a manifest with routes and waits until each of them is Ready.
func (s *Stack) ApplyRoute(ctx context.Context, manifest string) error {
	if _, err := s.Admin().Apply(ctx, manifest); err != nil {
		return err
	}
	_, err := s.Admin().Kubectl(ctx, "wait", "--for=condition=Ready", "llmroutes", "--all", "-A", "--timeout=60s")
	return err
}

// Ended receives the first program of the stack that ends by itself.
func (s *Stack) Ended() <-chan *Process {
	var running []*Process // the manager is started again
	for _, p := range s.Proxies {
		running = append(running, p.Process)
	}
	for _, b := range s.Backends {
		running = append(running, b.Process)
	}
	ended := make(chan *Process, len(running))
	for _, p := range running {
		go func() {
			<-p.Done()
			ended <- p
		}()
	}
	return ended
}
