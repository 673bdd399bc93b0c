package controller

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/spillway-dev/spillway/internal/controller"
	"github.com/spillway-dev/spillway/test/apiserver"
)

var (
	config *rest.Config
	admin  client.WithWatch
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute) // bounds a failure
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	RunSpecs(t, "Controller")
}

var _ = BeforeSuite(func() {
	config = apiserver.Start().Config
	scheme := apiserver.Scheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	var err error
	admin, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// world is a pair of namespaces of one spec: the manager's own, and the one whose routes it watches.
type world struct {
	system, team string
}

var worlds atomic.Int32

func newWorld(ctx context.Context) world {
	n := worlds.Add(1)
	w := world{system: fmt.Sprintf("system-%d", n), team: fmt.Sprintf("team-%d", n)}
	for _, name := range []string{w.system, w.team} {
		Expect(admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	return w
}

// running is a manager in this process.
type running struct {
	writes atomic.Int32 // of status
	stop   func()
}

// hooks let a spec stand between the manager and the API server.
type hooks struct {
	options      func(*controller.Options)
	elect        bool
	beforeStatus func(client.Object) error // an error is what the write comes to
	request      func(*http.Request)       // sees each one
}

type noMetrics struct{}

func (noMetrics) Compiled(time.Duration, map[string]int) {}
func (noMetrics) PublishFailed()                         {}
func (noMetrics) CRDSkew(string, int, int)               {}

// start runs a manager until the spec ends, or until its stop is called.
func (w world) start(ctx context.Context, h hooks) *running {
	r := &running{}
	o := controller.Options{Namespace: w.system, WatchNamespaces: []string{w.team}, Metrics: noMetrics{}}
	if h.options != nil {
		h.options(&o)
	}
	to, err := controller.ManagerOptions(config, o, manager.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", LeaderElection: h.elect,
		NewClient: func(c *rest.Config, co client.Options) (client.Client, error) { return intercepted(c, co, r, h) },
	})
	Expect(err).NotTo(HaveOccurred())
	own := rest.CopyConfig(config)
	if h.request != nil {
		own.Wrap(func(next http.RoundTripper) http.RoundTripper { return spy{next, h.request} })
	}
	mgr, err := ctrl.NewManager(own, to)
	Expect(err).NotTo(HaveOccurred())
	Expect(controller.Setup(mgr, o)).To(Succeed())
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	var stopped atomic.Bool
	r.stop = func() {
		cancel()
		if !stopped.Swap(true) {
			Eventually(ended).Should(Receive(BeNil()))
		}
	}
	DeferCleanup(r.stop)
	return r
}

// spy shows each request of a manager.
type spy struct {
	http.RoundTripper
	see func(*http.Request)
}

func (s spy) RoundTrip(r *http.Request) (*http.Response, error) {
	s.see(r)
	return s.RoundTripper.RoundTrip(r)
}

func intercepted(c *rest.Config, co client.Options, r *running, h hooks) (client.Client, error) {
	base, err := client.NewWithWatch(c, co)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(base, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			r.writes.Add(1)
			if h.beforeStatus != nil {
				if err := h.beforeStatus(o); err != nil {
					return err
				}
			}
			return c.SubResource(name).Patch(ctx, o, p, opts...)
		},
	}), nil
}
