//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// readyWithin bounds the start. An idle machine needs 8 s.
const readyWithin = 3 * time.Minute

// Config is what a node is made of. All are required.
type Config struct {
	Programs   string   // folder with etcd, kube-apiserver, kubelet, ... as `localkube node` prints it
	Logs       string   // folder for the output of the node's programs
	PauseImage string   // reference of the image that holds a Pod's namespaces; one of Images
	Images     []string // files with images that Pods need; nothing is ever pulled
}

// Node is a running node. It has no end of its own: it ends with the process that Run started.
type Node struct {
	Client *kubernetes.Clientset // as a cluster's administrator

	dir       string // configuration and certificates
	logs      string
	programs  string
	processes []*process
}

// Start runs a node and returns when it is ready for Pods and has the images. It works inside of Run only.
func Start(ctx context.Context, c Config) (*Node, error) {
	if os.Getenv(stageVariable) != stageTests {
		return nil, errors.New("a node is started inside of node.Run only")
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	n := &Node{dir: "/run/node", logs: c.Logs, programs: c.Programs}
	if err := n.prepare(ctx, c); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		func(context.Context) error { return n.startStorage() },
		func(context.Context) error { return n.startAPIServer() },
		func(ctx context.Context) error {
			return n.until(ctx, "import images", func() error { return n.Import(ctx, c.Images...) })
		},
		n.awaitAPIServer,
		func(context.Context) error { return n.startControllers() },
		func(context.Context) error { return n.startKubelet() },
		n.serveNames,
		n.awaitNode,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// prepare writes all files and sets up the network.
func (n *Node) prepare(ctx context.Context, c Config) error {
	for _, dir := range []string{n.dir, n.logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	cni, err := cniFolder()
	if err != nil {
		return err
	}
	if err := newPKI(n.dir); err != nil {
		return err
	}
	err = settings{
		Name: Name, Address: Address, Domain: Domain, PodNetwork: podNetwork,
		Dir: n.dir, Cgroup: os.Getenv(cgroupVariable), Containerd: containerdSocket, PauseImage: c.PauseImage, CNI: cni,
	}.write()
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig())
	if err != nil {
		return err
	}
	config.QPS = -1
	if n.Client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	return setUpNetwork(ctx)
}

// Kubeconfig is the file with which an administrator talks to the API server.
func (n *Node) Kubeconfig() string { return n.file("admin.conf") }

// Kubectl is the path of kubectl.
func (n *Node) Kubectl() string { return n.program("kubectl") }

// Import loads images from files into the node.
func (n *Node) Import(ctx context.Context, files ...string) error {
	args := append([]string{"--address", containerdSocket, "--namespace", "k8s.io", "images", "import"}, "")
	for _, file := range files {
		args[len(args)-1] = file
		if err := run(ctx, "ctr", args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) awaitAPIServer(ctx context.Context) error {
	return n.until(ctx, "API server", func() error {
		var status int
		n.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).StatusCode(&status)
		if status != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", status)
		}
		return nil
	})
}

func (n *Node) awaitNode(ctx context.Context) error {
	return n.until(ctx, "node", func() error {
		found, err := n.Client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return fmt.Errorf("not ready: %s", condition.Message)
			} else if condition.Type == corev1.NodeReady {
				return nil
			}
		}
		return errors.New("no condition Ready yet")
	})
}
