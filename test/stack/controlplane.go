package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// AssetsVariable names the environment variable that points to etcd, kube-apiserver and kubectl.
const AssetsVariable = "KUBEBUILDER_ASSETS"

const (
	// startTimeout bounds the start of etcd and of the API server, generously: the machine may be busy.
	startTimeout = 2 * time.Minute
	// stopTimeout bounds their end.
	stopTimeout = time.Minute
)

// controlPlane is a real etcd and a real kube-apiserver with RBAC, on loopback.
type controlPlane struct {
	dir     string
	kubectl string
	plane   envtest.ControlPlane
	admin   *User
	client  kubernetes.Interface
}

// startControlPlane starts both, with their state and logs in dir. Where audit is set, what is written through the API server is
// noted in a file, see ReadAudit.
func startControlPlane(dir string, audit bool) (*controlPlane, error) {
	assets := os.Getenv(AssetsVariable)
	if assets == "" {
		return nil, fmt.Errorf("%s is not set: start this through make (make run, make demo, make test-e2e), or set it to a "+
			"folder with etcd, kube-apiserver and kubectl: %s=$(go run -C hack/localkube . assets)", AssetsVariable, AssetsVariable)
	}
	c := &controlPlane{dir: dir, kubectl: filepath.Join(assets, "kubectl")}
	if _, err := os.Stat(c.kubectl); err != nil {
		if c.kubectl, err = exec.LookPath("kubectl"); err != nil {
			return nil, fmt.Errorf("no kubectl in %s and none in PATH", assets)
		}
	}
	etcdData, certs := filepath.Join(dir, "etcd"), filepath.Join(dir, "apiserver")
	if err := errors.Join(os.MkdirAll(etcdData, 0o700), os.MkdirAll(certs, 0o700)); err != nil {
		return nil, err
	}
	c.plane.Etcd = &envtest.Etcd{Path: filepath.Join(assets, "etcd"), DataDir: etcdData,
		StartTimeout: startTimeout, StopTimeout: stopTimeout}
	// A folder of our own for certificates lets the API server stop and come back as the same one.
	c.plane.APIServer = &envtest.APIServer{Path: filepath.Join(assets, "kube-apiserver"), CertDir: certs,
		StartTimeout: startTimeout, StopTimeout: stopTimeout}
	// Without this an API server with watchers takes a minute to end.
	c.plane.APIServer.Configure().Set("shutdown-watch-termination-grace-period", "1s").
		Set("advertise-address", "127.0.0.1").Set("endpoint-reconciler-type", "none") // else a machine needs a default route
	if audit {
		if err := c.audit(); err != nil {
			return nil, err
		}
	}
	if err := c.logTo(filepath.Join(dir, "logs")); err != nil {
		return nil, err
	}
	if err := c.plane.Start(); err != nil {
		return nil, fmt.Errorf("start the control plane (logs in %s): %w", filepath.Join(dir, "logs"), err)
	}
	return c, c.adoptAdmin()
}

func (c *controlPlane) logTo(dir string) error {
	for name, set := range map[string]func(*os.File){
		"etcd":           func(f *os.File) { c.plane.Etcd.Out, c.plane.Etcd.Err = f, f },
		"kube-apiserver": func(f *os.File) { c.plane.APIServer.Out, c.plane.APIServer.Err = f, f },
	} {
		f, err := os.Create(filepath.Join(dir, name+".log"))
		if err != nil {
			return err
		}
		set(f) // stays open as long as the process may be restarted
	}
	return nil
}

func (c *controlPlane) adoptAdmin() error {
	admin, err := c.addUser("admin", "system:masters")
	if err != nil {
		return errors.Join(err, c.stop())
	}
	config, err := clientConfig(admin.Kubeconfig)
	if err == nil {
		c.client, err = kubernetes.NewForConfig(config)
	}
	if err != nil {
		return errors.Join(err, c.stop())
	}
	c.admin = admin
	return nil
}

// addUser makes a person with a client certificate; what they may do is RBAC's matter.
func (c *controlPlane) addUser(name string, groups ...string) (*User, error) {
	u, err := c.plane.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	kubeconfig, err := u.KubeConfig()
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of %s: %w", name, err)
	}
	return c.newUser(name, kubeconfig)
}

func (c *controlPlane) newUser(name string, kubeconfig []byte) (*User, error) {
	path := filepath.Join(c.dir, "kubeconfigs", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	user := &User{Name: name, Kubeconfig: path, kubectl: c.kubectl, client: sync.OnceValues(clientOf(path))}
	return user, os.WriteFile(path, kubeconfig, 0o600)
}

// ready waits until the API server answers and its own roles are there.
func (c *controlPlane) ready(ctx context.Context) error {
	return Eventually(ctx, func() error {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
}

func (c *controlPlane) stop() error { return c.plane.Stop() }

// loseData brings etcd and the API server back as if nothing had ever been stored.
func (c *controlPlane) loseData(ctx context.Context) error {
	if err := c.plane.Stop(); err != nil {
		return err
	}
	data := filepath.Join(c.dir, "etcd")
	if err := errors.Join(os.RemoveAll(data), os.MkdirAll(data, 0o700)); err != nil {
		return err
	}
	if err := errors.Join(c.plane.Etcd.Start(), c.plane.APIServer.Start()); err != nil {
		return err
	}
	return c.ready(ctx)
}

// Eventually calls f until it returns no error or ctx ends; then it returns f's last error with the reason.
func Eventually(ctx context.Context, f func() error) error {
	const pause = 50 * time.Millisecond
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
