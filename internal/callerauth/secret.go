package callerauth

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/spillway-dev/spillway/internal/apiclient"
)

// SecretConfig of Keys from a Secret. REST, Namespace and Name are required.
type SecretConfig struct {
	// REST says how to reach the API server, as an account that may get, list and watch this one Secret.
	REST            *rest.Config
	Namespace, Name string
	// Log is told of changes and outages, never of a key. Default: discarded.
	Log *slog.Logger
}

// KeysFromSecret takes keys from a Secret, which it watches: a data key is the caller's name, its value the key. It does
// not talk to the API server before Run.
func KeysFromSecret(cfg SecretConfig) (*Keys, error) {
	hc, closeIdle, err := apiclient.NewHTTPClient(cfg.REST, dialTimeout, nil)
	if err != nil {
		return nil, err
	}
	client, err := apiclient.NewREST(cfg.REST, hc, scheme,
		apiclient.API{Root: "/api", Version: corev1.SchemeGroupVersion, ContentType: runtime.ContentTypeJSON})
	if err != nil {
		return nil, err
	}
	s := &secret{client: client, closeIdle: closeIdle, namespace: cfg.Namespace, name: cfg.Name}
	k := newKeys(s, cfg.Log)
	s.outage = outage{log: k.log, what: "watch Secret " + s.name, lasts: "keys that are known are kept",
		advice: "give the proxy's ServiceAccount the Role spillway-proxy-auth, with this Secret's name"}
	return k, nil
}

// secret is one watched Secret.
type secret struct {
	client          rest.Interface
	closeIdle       func()
	namespace, name string
	outage          outage
}

func (s *secret) String() string { return fmt.Sprintf("Secret %s/%s", s.namespace, s.name) }

// retries come quickly after a short interruption, and never more than a few seconds late.
var retries = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.6, Jitter: 0.3, Steps: 8, Cap: 5 * time.Second}

func (s *secret) run(ctx context.Context, set func(map[string][]byte)) error {
	defer s.closeIdle()
	quiet := logr.Discard() // the outage says it better, and once
	backoff := retries
	cache.NewReflectorWithOptions(s.listWatch(), &corev1.Secret{}, secretSink(set), cache.ReflectorOptions{
		Name: "callers' keys", Logger: &quiet, Backoff: &backoff,
	}).RunWithContext(silent(ctx))
	return nil
}

func (s *secret) listWatch() *cache.ListWatch {
	codec := runtime.NewParameterCodec(scheme)
	request := func(opts *metav1.ListOptions) *rest.Request {
		// By name, so that a Role can name it.
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, s.name).String()
		return s.client.Get().Namespace(s.namespace).Resource("secrets").VersionedParams(opts, codec)
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			list, err := request(&opts).Do(ctx).Get()
			s.outage.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			w, err := request(&opts).Watch(ctx)
			s.outage.note(ctx, err)
			return w, err
		},
	}
}

// secretSink is the end of the watch. The reflector calls it from one goroutine.
type secretSink func(map[string][]byte)

// Add implements cache.ReflectorStore.
func (set secretSink) Add(obj any) error { return set.Update(obj) }

// Update implements cache.ReflectorStore. A Secret without data exists, so it is no nil.
func (set secretSink) Update(obj any) error {
	found, ok := obj.(*corev1.Secret)
	if !ok {
		return nil
	}
	if found.Data == nil {
		found.Data = map[string][]byte{}
	}
	set(found.Data)
	return nil
}

// Delete implements cache.ReflectorStore.
func (set secretSink) Delete(any) error {
	set(nil)
	return nil
}

// Replace implements cache.ReflectorStore: the whole truth after a list.
func (set secretSink) Replace(objs []any, _ string) error {
	if len(objs) == 0 {
		return set.Delete(nil)
	}
	return set.Update(objs[0])
}

// Resync implements cache.ReflectorStore.
func (set secretSink) Resync() error { return nil }
