package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/spillway-dev/spillway/internal/compiler"
)

type noMetrics struct{}

func (noMetrics) Compiled(time.Duration, map[string]int) {}
func (noMetrics) PublishFailed()                         {}
func (noMetrics) CRDSkew(string, int, int)               {}

func TestOptionsAreCompleted(t *testing.T) {
	o, err := Options{Namespace: "own", Metrics: noMetrics{}, MaxPin: time.Hour}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if o.MaxPin != time.Hour || o.PinRetention != DefaultPinRetention || o.ReportTimeout != DefaultReportTimeout ||
		o.ReportRetention != DefaultReportRetention || o.Clock == nil {
		t.Errorf("options = %+v", o)
	}
	for name, bad := range map[string]Options{
		"no namespace":    {Metrics: noMetrics{}},
		"no metrics":      {Namespace: "own"},
		"a negative span": {Namespace: "own", Metrics: noMetrics{}, MaxPin: -1},
	} {
		if _, err := bad.complete(); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func TestCacheHoldsWhatIsWatched(t *testing.T) {
	all := cacheOptions(Options{Namespace: "own"})
	if all.DefaultNamespaces != nil {
		t.Errorf("without a list the namespaces are %v, want all", all.DefaultNamespaces)
	}
	some := cacheOptions(Options{Namespace: "own", WatchNamespaces: []string{"a", "b"}})
	if len(some.DefaultNamespaces) != 2 {
		t.Errorf("namespaces = %v, want a and b", some.DefaultNamespaces)
	}
	for object, by := range some.ByObject {
		if _, own := by.Namespaces["own"]; own && by.Transform != nil && len(by.Namespaces) != 3 {
			t.Errorf("%T is watched in %v, want a, b and our own", object, by.Namespaces)
		}
	}
}

// A manager starts before its CRDs are served, so it must know its resources without asking.
func TestResourcesAreMappedWithoutAnAPIServer(t *testing.T) {
	kinds := map[schema.GroupVersionKind]string{
		gvk("LLMRoute"): "llmroutes", gvk("BackendPin"): "backendpins", gvk("ProxyReport"): "proxyreports",
		{Version: "v1", Kind: string(compiler.KindSecret)}: "secrets", {Version: "v1", Kind: string(compiler.KindConfigMap)}: "configmaps",
		{Version: "v1", Kind: string(compiler.KindService)}: "services", crdKind: "customresourcedefinitions",
	}
	for kind, want := range kinds {
		m, err := mapper().RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil || m.Resource.Resource != want {
			t.Errorf("%s is %v (%v), want %s", kind.Kind, m, err, want)
		}
	}
}
