package callerauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	dialTimeout = 3 * time.Second
	// pingAfter and pingTimeout find a connection that died without a word.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// scheme knows the few kinds that this package exchanges with the API server.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, corev1.AddToScheme,
	} {
		utilruntime.Must(add(s)) // fails only where two kinds share a name
	}
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// newHTTPClient returns connections of this package's own: they are none of the table's, and what waits in one must not
// hold up the other. closeIdle drops them when nothing is running any more.
func newHTTPClient(cfg *rest.Config) (hc *http.Client, closeIdle func(), err error) {
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
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:     90 * time.Second,
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, transport)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &http.Client{Transport: wrapped}, transport.CloseIdleConnections, nil
}

func newRESTClient(cfg *rest.Config, hc *http.Client, path string, gv schema.GroupVersion) (rest.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = path, &gv
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	cfg.UserAgent = "spillway-proxy"
	cfg.QPS = -1 // what may come in masses is limited where it is asked
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := rest.RESTClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	return c, nil
}

// silent keeps client-go from logging what it sends, which it would at the highest levels: tokens and keys.
func silent(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// outage says once that the API server does not answer one kind of question, and once that it does again.
type outage struct {
	log    *slog.Logger
	what   string // the question, in the words of RBAC
	lasts  string // what holds meanwhile
	advice string // what to do where the server refuses
	down   atomic.Bool
}

func (o *outage) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		if o.down.Swap(false) {
			o.log.Info("the API server answers again", "what", o.what)
		}
	case errors.Is(context.Cause(ctx), context.Canceled): // our own end
	case !o.down.Swap(true):
		attrs := []any{"what", o.what, "meanwhile", o.lasts, "error", describe(err)}
		if apierrors.IsForbidden(err) {
			attrs = append(attrs, "advice", o.advice)
		}
		o.log.Error("the API server does not answer", attrs...)
	}
}

// describe says what went wrong without the server's own words, which could repeat what it was sent.
func describe(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Sprintf("status %d, reason %q", status.Status().Code, status.Status().Reason)
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return fmt.Sprintf("%T", err)
}
