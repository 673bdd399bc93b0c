package api

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/apiserver"
)

// namespace of the routes and pins in this suite; the programs' own is systemNamespace.
const (
	namespace       = "sirens-echo"
	systemNamespace = "spillway-system"
)

var (
	config *rest.Config  // cluster administrator
	admin  client.Client // with config
	scheme = apiserver.Scheme()
)

func TestAPI(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "API")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	config = apiserver.Start().Config
	admin = clientFor(config)
	for _, dir := range []string{"rbac", "policy"} {
		for _, file := range kustomization(dir) {
			apiserver.Create(ctx, admin, filepath.Join(dir, file))
		}
	}
	apiserver.Create(ctx, admin, "samples/route.yaml", "samples/pinner.yaml")
	waitForPolicies(ctx)
})

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

// kustomization lists the files that a directory of config/ says it consists of.
func kustomization(dir string) []string {
	GinkgoHelper()
	resources, found, err := unstructured.NestedStringSlice(
		apiserver.Objects(filepath.Join(dir, "kustomization.yaml"))[0].Object, "resources")
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return resources
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
