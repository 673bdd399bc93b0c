package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	readyWithin = 2 * time.Minute  // a cold, loaded two-core machine needs 30 s
	stopWithin  = 20 * time.Second // per process, then it is killed
)

// up runs etcd and kube-apiserver on loopback, with RBAC and mutual TLS, until ctx ends or one of them dies.
func up(ctx context.Context, dir string, stdout, stderr io.Writer) error {
	assets, err := findAssets(ctx, stderr)
	if err != nil {
		return err
	}
	dir, remove, err := workDir(dir)
	if err != nil {
		return err
	}
	defer remove()
	etcd, api, err := configure(dir)
	if err != nil {
		return err
	}
	etcdRun, err := start(filepath.Join(assets, "etcd"), dir, etcd.args)
	if err != nil {
		return err
	}
	defer etcdRun.stop() // deferred calls run in reverse: the API server first, etcd after it
	apiRun, err := start(filepath.Join(assets, "kube-apiserver"), dir, api.args)
	if err != nil {
		return err
	}
	defer apiRun.stop()

	if err := waitReady(ctx, dir, api.url, etcdRun, apiRun); err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := writeKubeconfig(dir, kubeconfig, api.url); err != nil {
		return err
	}
	fmt.Fprintln(stdout, kubeconfig)
	fmt.Fprintf(stderr, "localkube: the API server is ready. In another terminal:\n  export KUBECONFIG=%s\n  %s get namespaces\nCtrl-C stops it.\n",
		kubeconfig, kubectl(assets))
	select {
	case <-ctx.Done():
		fmt.Fprintln(stderr, "localkube: stopping")
		return nil
	case <-etcdRun.exited:
		return etcdRun.died()
	case <-apiRun.exited:
		return apiRun.died()
	}
}

// kubectl is the command to show to the user: a given set of binaries may do without its own.
func kubectl(assets string) string {
	if path := filepath.Join(assets, "kubectl"); exists(path) {
		return path
	}
	return "kubectl"
}

// workDir makes dir, or a temporary one that remove deletes.
func workDir(dir string) (abs string, remove func(), err error) {
	if dir == "" {
		dir, err = os.MkdirTemp("", "localkube-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	abs, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, err
	}
	return abs, func() {}, os.MkdirAll(abs, 0o700)
}

// service is where one server is to listen and how it is started.
type service struct {
	url  string
	args []string
}

// configure writes the certificates into dir and chooses the ports.
func configure(dir string) (etcd, api service, err error) {
	ca, err := newAuthority(dir)
	if err != nil {
		return etcd, api, err
	}
	err = errors.Join(
		ca.issue("server", pkix.Name{CommonName: "localkube-server"}),
		ca.issue("admin", pkix.Name{CommonName: "localkube-admin", Organization: []string{"system:masters"}}),
		writeSigningKey(filepath.Join(dir, "tokens.key")),
	)
	if err != nil {
		return etcd, api, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return etcd, api, err
	}
	clientURL := fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	file := func(name string) string { return filepath.Join(dir, name) }
	etcd = service{url: clientURL, args: []string{
		"--name=localkube", "--data-dir=" + file("etcd"), "--log-level=warn",
		"--listen-client-urls=" + clientURL, "--advertise-client-urls=" + clientURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=localkube=" + peerURL,
		"--force-new-cluster=" + fmt.Sprint(exists(file("etcd"))), // --dir used again: the data stays, the peer port is new
		"--client-cert-auth", "--trusted-ca-file=" + file("ca.crt"), "--cert-file=" + file("server.crt"), "--key-file=" + file("server.key"),
	}}
	api = service{url: fmt.Sprintf("https://127.0.0.1:%d", ports[2]), args: []string{
		"--etcd-servers=" + clientURL, "--etcd-cafile=" + file("ca.crt"), "--etcd-certfile=" + file("admin.crt"), "--etcd-keyfile=" + file("admin.key"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", fmt.Sprintf("--secure-port=%d", ports[2]),
		"--tls-cert-file=" + file("server.crt"), "--tls-private-key-file=" + file("server.key"), "--client-ca-file=" + file("ca.crt"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("tokens.key"), "--service-account-signing-key-file=" + file("tokens.key"),
		"--disable-admission-plugins=ServiceAccount", // no controller manager here that would make the accounts
	}}
	return etcd, api, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// freePorts asks the kernel for n unused loopback ports. All are held until the last is known, so that they differ.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// process is a running server whose output goes to a file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	exited    chan struct{} // closed when it has ended
}

func start(path, dir string, args []string) (*process, error) {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own descriptor
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach etcd before the API server has stopped
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: name, log: log.Name(), cmd: cmd, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // died reports the state
		close(p.exited)
	}()
	return p, nil
}

// stop ends the process gracefully, or by force after stopWithin.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only where it has ended already
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// died says how a process ended that should have gone on, with the end of its log.
func (p *process) died() error {
	log, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, log[max(0, len(log)-2000):])
}

// waitReady asks the API server until it says that it is ready.
func waitReady(ctx context.Context, dir, url string, etcd, api *process) error {
	client, err := adminClient(dir)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("the API server was not ready within %s, see %s", readyWithin, api.log))
	defer cancel()
	for {
		if ready(ctx, client, url) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-etcd.exited:
			return etcd.died()
		case <-api.exited:
			return api.died()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func adminClient(dir string) (*http.Client, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "admin.crt"), filepath.Join(dir, "admin.key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}},
	}}, nil
}

const kubeconfigFormat = `apiVersion: v1
kind: Config
current-context: localkube
contexts: [{name: localkube, context: {cluster: localkube, user: admin}}]
clusters: [{name: localkube, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: admin, user: {client-certificate-data: %s, client-key-data: %s}}]
`

// writeKubeconfig carries the certificates inside, so that the file can be copied. Only the user may read it.
func writeKubeconfig(dir, path, url string) error {
	parts := []any{url}
	for _, name := range []string{"ca.crt", "admin.crt", "admin.key"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		parts = append(parts, base64.StdEncoding.EncodeToString(raw))
	}
	return os.WriteFile(path, fmt.Appendf(nil, kubeconfigFormat, parts...), 0o600)
}
