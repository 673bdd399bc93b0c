package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// namespace of the routes and pins in this suite; the programs' own is systemNamespace.
const (
	namespace       = "sirens-echo"
	systemNamespace = "spillway-system"
)

var (
	config *rest.Config  // cluster administrator
	admin  client.Client // with config
	scheme = newScheme()
)

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		Fail("KUBEBUILDER_ASSETS is not set, so there is no kube-apiserver to test on: run `make test-api`, which builds one, or set it to a directory with etcd and kube-apiserver.")
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{root("config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute, // the machine may be busy
	}
	DeferCleanup(environment.Stop)
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1 // hundreds of small requests
	admin = clientFor(config)
	for _, dir := range []string{"rbac", "policy"} {
		for _, file := range kustomization(dir) {
			apply(ctx, filepath.Join(dir, file))
		}
	}
	apply(ctx, "samples/route.yaml")
	apply(ctx, "samples/pinner.yaml")
	waitForPolicies(ctx)
})

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		panic(err) // two kinds of one name: a programming error
	}
	return s
}

func clientFor(c *rest.Config) client.Client {
	GinkgoHelper()
	made, err := client.New(c, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	return made
}

// as returns a client for somebody else; extra is what the API server knows of a ServiceAccount's token.
func as(user string, extra map[string][]string) client.Client {
	GinkgoHelper()
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}, Extra: extra}
	return clientFor(c)
}

func root(parts ...string) string {
	return filepath.Join(append([]string{"..", ".."}, parts...)...)
}

// kustomization lists the files that a directory of config/ says it consists of.
func kustomization(dir string) []string {
	GinkgoHelper()
	resources, found, err := unstructured.NestedStringSlice(
		readObjects(root("config", dir, "kustomization.yaml"))[0].Object, "resources")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return resources
}

// apply creates every object of a file below config/.
func apply(ctx context.Context, file string) {
	GinkgoHelper()
	for _, object := range readObjects(root("config", file)) {
		Expect(admin.Create(ctx, object)).To(Succeed(), "%s: %s %s", file, object.GetKind(), object.GetName())
	}
}

func readObjects(file string) []*unstructured.Unstructured {
	GinkgoHelper()
	data, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred(), file)
		objects = append(objects, object)
	}
}

// waitForPolicies waits until the API server has compiled the admission policies: it does so some time after they exist.
func waitForPolicies(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		pin := newPin("probe", namesOf("other"))
		g.Expect(as("gamer", nil).Create(ctx, pin, client.DryRunAll)).To(MatchError(ContainSubstring("spillway-pin")))
		pin = newPin("probe", namesOf("default"))
		g.Expect(admin.Create(ctx, pin, client.DryRunAll)).To(Succeed())
		g.Expect(pin.Annotations).To(HaveKey(v1alpha1.AnnotationPinnedBy))
		report := &v1alpha1.ProxyReport{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: systemNamespace}}
		g.Expect(proxy("other").Create(ctx, report, client.DryRunAll)).To(MatchError(ContainSubstring("spillway-report")))
	}).WithContext(ctx).WithTimeout(policyWait).Should(Succeed())
}
