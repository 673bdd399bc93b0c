package apitest

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/plugin"
	"github.com/spillway-dev/spillway/test/apiserver"
)

// namespace is that of config/samples.
const namespace = "sirens-echo"

// patience bounds the wait for what the API server does in its own time; two noisy cores are slow.
const patience = 2 * time.Minute

var (
	admin      client.Client
	kubeconfig string
)

func TestPlugin(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plugin")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	rest := apiserver.Start().Config
	var err error
	admin, err = client.New(rest, client.Options{Scheme: apiserver.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	kubeconfig = filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "admin", Namespace: namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: rest.Host, CertificateAuthorityData: rest.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"admin": {ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}},
	}, kubeconfig)).To(Succeed())
	apiserver.Create(ctx, admin, "rbac/namespace.yaml", "rbac/people.yaml", "policy/pin.yaml", "policy/pinned-by.yaml",
		"samples/route.yaml", "samples/pinner.yaml")
	other := &v1alpha1.LLMRoute{Spec: v1alpha1.LLMRouteSpec{Chain: []v1alpha1.Backend{{Name: "hosted", URL: "http://hosted.lan/v1"}}}}
	other.Name, other.Namespace = "fast", namespace
	Expect(admin.Create(ctx, other)).To(Succeed())
	Eventually(func(g Gomega) { // the policies and roles take effect some time after they exist
		refused := as("gamer").run(ctx, "pin", "fast", "--backend", "hosted", "--for", "1h", "--dry-run")
		g.Expect(refused.err).To(ContainSubstring("spillway-pin"))
		g.Expect(as("gamer").run(ctx, "pin", "default", "--backend", "hosted", "--for", "1h", "--dry-run").code).To(Equal(0))
	}).WithContext(ctx).Should(Succeed())
})

// person runs the plugin under a name.
type person struct{ flags []string }

// as is somebody else; administrator is the owner of the cluster.
func as(user string) person {
	return person{[]string{"--as", user, "--as-group", "system:authenticated"}}
}

var administrator person

// outcome is what a run leaves on the terminal.
type outcome struct {
	code     int
	out, err string
}

func (p person) run(ctx context.Context, args ...string) outcome {
	var out, err buffer
	code := p.start(ctx, &out, &err, args...)
	return outcome{code, out.String(), err.String()}
}

func (p person) start(ctx context.Context, out, err io.Writer, args ...string) int {
	env := plugin.Env{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: err},
		Clock:     clock.RealClock{}, Zone: time.UTC, Version: "v0.0.0-test",
	}
	flags := append([]string{"--kubeconfig", kubeconfig}, p.flags...)
	if args[0] == "__complete" { // what is to be completed must stay the last word
		return plugin.Run(ctx, env, slices.Concat([]string{"kubectl-spillway", args[0]}, flags, args[1:]))
	}
	return plugin.Run(ctx, env, slices.Concat([]string{"kubectl-spillway"}, args, flags))
}

// buffer may be read while it is written.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
