package callerauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// dialTimeout bounds a dial to the API server, while a caller waits.
const dialTimeout = 3 * time.Second

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
