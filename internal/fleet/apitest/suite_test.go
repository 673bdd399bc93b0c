package apitest

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
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	// namespace and account are those that config/rbac names.
	namespace = "spillway-system"
	account   = "spillway-proxy"
	// patience is for what has no bound of its own on a busy machine.
	patience = time.Minute
)

var (
	environment *envtest.Environment
	admin       client.Client
	tokens      kubernetes.Interface
)

func TestFleet(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Fleet")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		Fail("KUBEBUILDER_ASSETS is not set, so there is no kube-apiserver to test on: run `make test-api`, which builds one, or set it to a directory with etcd and kube-apiserver.")
	}
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	environment = &envtest.Environment{
		CRDDirectoryPaths:        []string{root("config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * patience,
		ControlPlaneStopTimeout:  2 * patience,
	}
	// A folder of our own for the certificates lets the API server stop and come back as the same one.
	apiServer := environment.ControlPlane.GetAPIServer()
	apiServer.CertDir = GinkgoT().TempDir()
	// It would wait a minute for the watches to end by themselves.
	apiServer.Configure().Set("shutdown-watch-termination-grace-period", "1s")
	DeferCleanup(func() error { return environment.Stop() })
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1

	scheme := runtime.NewScheme()
	Expect(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))).To(Succeed())
	admin, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	tokens, err = kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	for _, file := range []string{"rbac/namespace.yaml", "rbac/proxy.yaml", "rbac/proxy_role.yaml", "policy/report.yaml"} {
		apply(ctx, file)
	}
})

var _ = AfterEach(func(ctx SpecContext) {
	Expect(admin.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.ProxyReport{}, client.InNamespace(namespace))).To(Succeed())
})

func root(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", ".."}, parts...)...)
}

// apply creates every object of a file below config/.
func apply(ctx context.Context, file string) {
	GinkgoHelper()
	data, err := os.ReadFile(root("config", file))
	Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred(), file)
		Expect(admin.Create(ctx, object)).To(Succeed(), "%s: %s %s", file, object.GetKind(), object.GetName())
	}
}

// identity is what a kubelet would mount into the pod: a token of the account that is bound to it.
func identity(ctx context.Context, serviceAccount, pod string) (*rest.Config, types.UID) {
	GinkgoHelper()
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Spec: corev1.PodSpec{
			ServiceAccountName: serviceAccount,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "proxy", Image: "spillway", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
		},
	}
	if err := admin.Create(ctx, object); apierrors.IsAlreadyExists(err) {
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	} else {
		Expect(err).NotTo(HaveOccurred())
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: object.UID},
	}}
	token, err := tokens.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, serviceAccount, request, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(environment.Config)
	config.BearerToken = token.Status.Token
	return config, object.UID
}

func ptr[T any](v T) *T { return &v }
