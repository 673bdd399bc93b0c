package apitest

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/apiserver"
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
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	environment = apiserver.Start()
	var err error
	admin, err = client.New(environment.Config, client.Options{Scheme: apiserver.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	tokens, err = kubernetes.NewForConfig(environment.Config)
	Expect(err).NotTo(HaveOccurred())
	apiserver.Create(ctx, admin, "rbac/namespace.yaml", "rbac/proxy.yaml", "rbac/proxy_role.yaml", "policy/report.yaml")
})

var _ = AfterEach(func(ctx SpecContext) {
	Expect(admin.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(namespace))).To(Succeed())
	Expect(admin.DeleteAllOf(ctx, &v1alpha1.ProxyReport{}, client.InNamespace(namespace))).To(Succeed())
})

// identity is what a kubelet would mount into the pod: a token of the account that is bound to it.
func identity(ctx context.Context, serviceAccount, pod string) (*rest.Config, types.UID) {
	GinkgoHelper()
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Spec: corev1.PodSpec{
			ServiceAccountName: serviceAccount,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "proxy", Image: "spillway", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
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
