package fleet

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

const (
	dialTimeout = 5 * time.Second
	// A connection without a sign of life for pingAfter is asked for one, and closed when none comes within pingTimeout:
	// a watch on a dead server would look like a quiet one.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// client holds the connections of this package: one transport, so one HTTP/2 connection, for both API groups.
type client struct {
	core      rest.Interface // Secrets
	spillway  rest.Interface // ProxyReports
	params    runtime.ParameterCodec
	transport *http.Transport
	gate      *gate
}

// newClient builds the clients. It does not talk to the server.
func newClient(cfg *rest.Config, clk clock.WithTicker, log *slog.Logger) (*client, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))

	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.UserAgent = "spillway-proxy"
	cfg.QPS = -1 // 33 watches and a write per second at most: the default limit would only stagger the start
	cfg.WarningHandler = rest.NoWarnings{}

	gate, transport, wrapped, err := newTransport(cfg, clk, log)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	hc := &http.Client{Transport: wrapped}
	core, err := newRESTClient(cfg, hc, "/api", corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf)
	if err != nil {
		return nil, err
	}
	spillway, err := newRESTClient(cfg, hc, "/apis", v1alpha1.GroupVersion, runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	return &client{core: core, spillway: spillway, params: runtime.NewParameterCodec(scheme), transport: transport, gate: gate}, nil
}

func newRESTClient(cfg *rest.Config, hc *http.Client, path string, gv schema.GroupVersion, contentType string) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = path, &gv
	cfg.ContentType = contentType
	cfg.AcceptContentTypes = contentType
	c, err := rest.RESTClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return c, nil
}

// newTransport is client-go's transport with health checks that notice a dead server within seconds, and a gate in front
// that keeps 33 watches from hammering one that is down.
func newTransport(cfg *rest.Config, clk clock.WithTicker, log *slog.Logger) (*gate, *http.Transport, http.RoundTripper, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	proxy := cfg.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	transport := &http.Transport{
		Proxy:               proxy,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: pingAfter}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:     90 * time.Second,
	}
	gate := newGate(transport, clk, log)
	wrapped, err := rest.HTTPWrappersForConfig(cfg, gate)
	if err != nil {
		return nil, nil, nil, err
	}
	return gate, transport, wrapped, nil
}

// close drops the idle connections; to be called when no request is running any more.
func (c *client) close() { c.transport.CloseIdleConnections() }
