package fleet

import (
	"log/slog"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/apiclient"
)

// dialTimeout bounds a dial to the API server.
const dialTimeout = 5 * time.Second

// client holds the connections of this package: one transport, so one HTTP/2 connection, for both API groups.
type client struct {
	core     rest.Interface // Secrets
	spillway rest.Interface // ProxyReports
	params   runtime.ParameterCodec
	gate     *gate
	close    func() // drops the idle connections; to be called when no request is running any more
}

// newClient builds the clients. It does not talk to the server.
func newClient(cfg *rest.Config, clk clock.WithTicker, log *slog.Logger) (*client, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	c := &client{params: runtime.NewParameterCodec(scheme)}
	hc, closeIdle, err := apiclient.NewHTTPClient(cfg, dialTimeout, func(next http.RoundTripper) http.RoundTripper {
		c.gate = newGate(next, clk, log)
		return c.gate
	})
	if err != nil {
		return nil, err
	}
	c.close = closeIdle
	c.core, err = apiclient.NewREST(cfg, hc, scheme,
		apiclient.API{Root: "/api", Version: corev1.SchemeGroupVersion, ContentType: runtime.ContentTypeProtobuf})
	if err != nil {
		return nil, err
	}
	c.spillway, err = apiclient.NewREST(cfg, hc, scheme,
		apiclient.API{Root: "/apis", Version: v1alpha1.GroupVersion, ContentType: runtime.ContentTypeJSON})
	return c, err
}
