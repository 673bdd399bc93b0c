package apitest

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/spillway-dev/spillway/internal/telemetry"
	"github.com/spillway-dev/spillway/test/apiserver"
)

const (
	// system and proxyAccount are those that config/ names, sirens is the one of config/samples/user.yaml.
	system       = "spillway-system"
	proxyAccount = "spillway-proxy"
	sirens       = "sirens-echo"
	// patience is for what has no bound of its own on a busy machine.
	patience = time.Minute
	// everything is a level below all that client-go knows.
	everything = slog.Level(-20)
)

var (
	environment *envtest.Environment
	admin       client.Client
	accounts    kubernetes.Interface
	// logs is all that is logged by the proxies and by client-go, at every level.
	logs buffer
)

// buffer is a bytes.Buffer for several goroutines.
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

func TestCallerAuth(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Caller authentication")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	talkative := logr.FromSlogHandler(telemetry.NewLogger(&logs, everything).Handler())
	klog.SetLoggerWithOptions(talkative, klog.ContextualLogger(true))
	var verbosity klog.Level
	Expect(verbosity.Set("20")).To(Succeed())
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	environment = apiserver.Start()
	var err error
	admin, err = client.New(environment.Config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	accounts, err = kubernetes.NewForConfig(environment.Config)
	Expect(err).NotTo(HaveOccurred())

	apiserver.Create(ctx, admin, "rbac/namespace.yaml", "rbac/proxy.yaml", "rbac/proxy_role.yaml", "rbac/people.yaml",
		"caller-auth/roles/role.yaml", "caller-auth/kubernetes/binding.yaml", "caller-auth/keys/binding.yaml")
	for _, name := range []string{sirens, "other"} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	apiserver.Create(ctx, admin, "samples/user.yaml")
})

// makeAccount makes a ServiceAccount that goes with the test.
func makeAccount(ctx context.Context, name string) *corev1.ServiceAccount {
	GinkgoHelper()
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: sirens, Name: name}}
	Expect(admin.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
	return object
}

// tokenOf is a token of an account; audiences as the API server takes them, none for its own.
func tokenOf(ctx context.Context, namespace, name string, audiences ...string) string {
	GinkgoHelper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	token, err := accounts.CoreV1().ServiceAccounts(namespace).CreateToken(unlogged(ctx), name, request, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return token.Status.Token
}

// unlogged keeps what the test itself sends out of the logs that it reads.
func unlogged(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// allow binds a ClusterRole to an account, in its namespace or, with cluster, everywhere. The binding goes with the test.
func allow(ctx context.Context, role, account string, cluster bool) client.Object {
	GinkgoHelper()
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: sirens, Name: account}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	meta := metav1.ObjectMeta{Namespace: sirens, Name: account + "-" + role}
	var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if cluster {
		meta.Namespace = ""
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	Expect(admin.Create(ctx, binding)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, binding))).To(Succeed()) })
	return binding
}

// as is how an account reaches the API server.
func as(token string) *rest.Config {
	config := rest.AnonymousClientConfig(environment.Config)
	config.BearerToken = token
	return config
}
