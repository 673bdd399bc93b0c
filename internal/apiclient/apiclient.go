package apiclient

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	// A connection without a sign of life for pingAfter is asked for one, and closed when none comes within pingTimeout:
	// a watch on a dead server would look like a quiet one.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = 90 * time.Second
)

// NewHTTPClient returns client-go's connections to the server that cfg names, with its credentials, and with health checks that
// notice a dead server within seconds. It does not talk to the server. dialTimeout bounds a dial, and a TLS handshake. wrap, if
// it is not nil, stands before the connections. closeIdle drops them when no request is running any more.
func NewHTTPClient(cfg *rest.Config, dialTimeout time.Duration, wrap func(http.RoundTripper) http.RoundTripper) (hc *http.Client, closeIdle func(), err error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
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
		IdleConnTimeout:     idleTimeout,
	}
	var inner http.RoundTripper = transport
	if wrap != nil {
		inner = wrap(transport)
	}
	outer, err := rest.HTTPWrappersForConfig(cfg, inner)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &http.Client{Transport: outer}, transport.CloseIdleConnections, nil
}

// API is one group and version of the API.
type API struct {
	Root        string // "/api" for the core group, "/apis" for all others
	Version     schema.GroupVersion
	ContentType string // of requests and answers
}

// NewREST returns a client for one API over the connections hc, which decodes the kinds of scheme. It has no rate limit: what may
// come in masses is limited where it is asked. It does not talk to the server.
func NewREST(cfg *rest.Config, hc *http.Client, scheme *runtime.Scheme, api API) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = api.Root, &api.Version
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = api.ContentType, api.ContentType
	cfg.UserAgent = "spillway-proxy"
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := rest.RESTClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", api.Version, err)
	}
	return c, nil
}
