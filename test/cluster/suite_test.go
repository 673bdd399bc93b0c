//go:build linux

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/spillway-dev/spillway/test/cluster/node"
)

const (
	release   = "spillway"
	namespace = "spillway-system"
	routes    = "sirens-echo" // namespace of the sample route and of the backends

	previous = "0.0.1" // versions of the chart and the images; make test-cluster makes both from one tree
	current  = "0.0.2"
)

// patience bounds waits for what happens by itself. Nothing is measured by it.
const patience = 4 * time.Minute

func TestMain(m *testing.M) { os.Exit(node.Run(m.Run)) }

// cluster is a node, and a person with kubectl, helm and curl.
type cluster struct {
	node *node.Node
	dir  string // with images, charts and the plugin

	before []string // inventory before the release was installed
}

// start runs the node with every image that the suite needs.
func start(t *testing.T) *cluster {
	t.Helper()
	dir, programs := os.Getenv("CLUSTER"), os.Getenv("NODE_PROGRAMS")
	if dir == "" || programs == "" {
		t.Fatal("CLUSTER and NODE_PROGRAMS are not set: run `make test-cluster`, which builds what they name")
	}
	c := &cluster{dir: dir}
	images := []string{c.file("images", "spillway-pause.tar"), c.file("images", "spillway-simbackend.tar")}
	for _, version := range []string{previous, current} {
		images = append(images, c.file(version, "spillway-manager.tar"), c.file(version, "spillway-proxy.tar"))
	}
	began := time.Now()
	var err error
	c.node, err = node.Start(t.Context(), node.Config{
		Programs: programs, Logs: c.file("logs"), PauseImage: "node.test/spillway-pause:1", Images: images,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the node was ready after %.1f s", time.Since(began).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			c.keepEvidence(t)
		}
	})
	return c
}

func (c *cluster) file(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *cluster) chart(version string) string {
	return c.file(version, "spillway-"+version+".tgz")
}

// command is a program that a person would run. Its environment knows the cluster, and the plugin.
func (c *cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	const helm = "/run/helm"
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.node.Kubeconfig(), "PATH="+c.dir+":"+os.Getenv("PATH"),
		"HELM_CACHE_HOME="+helm, "HELM_CONFIG_HOME="+helm, "HELM_DATA_HOME="+helm)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// try runs a command and returns what it printed. Its error carries what the command said on stderr.
func (c *cluster) try(ctx context.Context, stdin, name string, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := c.command(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return out.String(), nil
}

// kubectl runs kubectl and fails the test where it fails.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return c.must(t)(c.try(t.Context(), "", c.node.Kubectl(), args...))
}

// apply applies a manifest.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	c.must(t)(c.try(t.Context(), manifest, c.node.Kubectl(), "apply", "-f", "-"))
}

// get reads one field of an object.
func (c *cluster) get(ctx context.Context, in, object, path string) (string, error) {
	return c.try(ctx, "", c.node.Kubectl(), "get", object, "-n", in, "-o", "jsonpath={"+path+"}")
}

func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	return c.must(t)(c.try(t.Context(), "", os.Getenv("HELM"), append(args, "--namespace", namespace)...))
}

func (c *cluster) must(t *testing.T) func(string, error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// eventually waits until check holds.
func (c *cluster) eventually(t *testing.T, sentence string, check func(g gomega.Gomega)) {
	t.Helper()
	gomega.NewWithT(t).Eventually(t.Context(), check).WithTimeout(patience).WithPolling(250*time.Millisecond).Should(gomega.Succeed(), sentence)
}

// keepEvidence writes what one would look at first into the folder of the logs, beside those of the node's programs.
func (c *cluster) keepEvidence(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for name, args := range map[string][]string{
		"pods":   {"describe", "pods", "-A"},
		"events": {"get", "events", "-A", "--sort-by=.metadata.creationTimestamp"},
		"routes": {"get", "llmroutes,backendpins,proxyreports", "-A", "-o", "yaml"},
	} {
		out, err := c.try(ctx, "", c.node.Kubectl(), args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		_ = os.WriteFile(c.file("logs", name+".txt"), []byte(out), 0o644)
	}
	if _, err := c.try(ctx, "", "cp", "-r", "/var/log/pods", c.file("logs")); err != nil {
		t.Log(err)
	}
	t.Logf("logs of the node and of its Pods are in %s", c.file("logs"))
}
