package controller

import (
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/spillway-dev/spillway/internal/compiler"
)

// LeaseName is the Lease in the manager's namespace that its leader holds.
const LeaseName = "spillway-manager"

// DefaultPinRetention is how long an expired pin stays.
const DefaultPinRetention = 24 * time.Hour

// Options are the manager's settings. Zero values mean the defaults, apart from Namespace and Metrics.
type Options struct {
	// Namespace is the manager's own: the table, the salt, the lease and the proxies' reports are there. Required.
	Namespace string
	// OwnerDeployment is the manager's Deployment in Namespace. The table, the salt and the lease belong to it and go with it.
	// Empty: they belong to nobody and stay.
	OwnerDeployment string
	// WatchNamespaces are the namespaces whose routes and pins count; none means all.
	WatchNamespaces []string
	// ClusterDomain ends the DNS names of Services. Default: compiler.DefaultClusterDomain.
	ClusterDomain string
	// MaxPin is the longest that a pin may last. Default: compiler.DefaultMaxPin.
	MaxPin time.Duration
	// PinRetention is how long an expired pin stays. Default: DefaultPinRetention.
	PinRetention time.Duration
	// ReportTimeout is how long a proxy counts as live after its last report. Default: DefaultReportTimeout.
	ReportTimeout time.Duration
	// ReportRetention is how long after its last change a report is deleted. Default: DefaultReportRetention.
	ReportRetention time.Duration
	// Metrics receives the measures of the compiler. Required.
	Metrics Metrics
	// Clock that pins, reports and waits go by. Default: the real one.
	Clock clock.Clock
}

// complete fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Namespace == "" {
		return o, errors.New("the manager's own namespace is not set")
	}
	if o.Metrics == nil {
		return o, errors.New("the manager's metrics are not set")
	}
	for _, span := range []struct {
		set      *time.Duration
		standard time.Duration
	}{
		{&o.MaxPin, compiler.DefaultMaxPin}, {&o.PinRetention, DefaultPinRetention},
		{&o.ReportTimeout, DefaultReportTimeout}, {&o.ReportRetention, DefaultReportRetention},
	} {
		if *span.set < 0 {
			return o, errors.New("a duration of the manager's settings is negative")
		}
		if *span.set == 0 {
			*span.set = span.standard
		}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o, nil
}

// ManagerOptions adds to the options of a controller-runtime manager what this package needs: the scheme, and a cache that
// holds no more than a compile reads. Where to asks for a leader, the lease is ours, in the cluster that is given.
func ManagerOptions(cluster *rest.Config, o Options, to manager.Options) (manager.Options, error) {
	o, err := o.complete()
	if err != nil {
		return to, err
	}
	scheme, err := newScheme()
	if err != nil {
		return to, err
	}
	to.Scheme = scheme
	to.Cache = cacheOptions(o)
	to.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper(), nil }
	to.LeaderElectionReleaseOnCancel = true
	if to.LeaderElection {
		to.LeaderElectionResourceLockInterface, err = newLock(cluster, o)
	}
	return to, err
}

// mapper knows the resources of the kinds that we touch. It asks nobody: a manager starts before its CRDs are served, and
// while the API server cannot be reached.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"LLMRoute", "BackendPin", "ProxyReport"} {
		m.Add(gvk(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Secret", "ConfigMap", "Service"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(deploymentKind, meta.RESTScopeNamespace)
	m.Add(crdKind, meta.RESTScopeRoot)
	return m
}

func cacheOptions(o Options) cache.Options {
	// Nil stands for all namespaces.
	var watched, andOwn map[string]cache.Config
	for _, namespace := range o.WatchNamespaces {
		if watched == nil {
			watched, andOwn = map[string]cache.Config{}, map[string]cache.Config{o.Namespace: {}}
		}
		watched[namespace], andOwn[namespace] = cache.Config{}, cache.Config{}
	}
	return cache.Options{
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: watched,
		ByObject: map[client.Object]cache.ByObject{
			&storedReport{}:     {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&corev1.Service{}:   {Transform: bare},
			&corev1.ConfigMap{}: {Transform: bare},
			&corev1.Secret{}:    {Transform: bare, Namespaces: andOwn}, // the table's shards are in our own
		},
	}
}

// bare drops what no compile reads, before it takes memory. An annotation may hold a whole Secret: kubectl apply leaves it
// there.
func bare(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
		o.SetAnnotations(nil)
		o.SetLabels(nil)
		o.SetOwnerReferences(nil)
	}
	if s, ok := object.(*corev1.Service); ok {
		s.Status = corev1.ServiceStatus{}
	}
	return object, nil
}
