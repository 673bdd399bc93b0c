package controller

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/status"
)

func crd(t *testing.T, resource string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", v1alpha1.Group+"_"+resource+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestCRDsOfThisReleaseHaveNoSkew(t *testing.T) {
	for resource, kind := range kindsNeeded {
		found, err := skewOf(crd(t, resource), kind)
		if err != nil || len(found.missing)+len(found.unknown) > 0 {
			t.Errorf("%s: %+v, error %v", resource, found, err)
		}
	}
}

func versionOf(crd map[string]any) map[string]any {
	return crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
}

// olderCRD is the CRD of routes without two fields; newerCRD has two more.
func olderCRD(t *testing.T) map[string]any {
	t.Helper()
	old := crd(t, "llmroutes")
	for _, path := range [][]string{{"spec", "properties", "queue"}, {"spec", "properties", "chain", "items", "properties", "capacityGroup"}} {
		unstructured.RemoveNestedField(versionOf(old), append([]string{"schema", "openAPIV3Schema", "properties"}, path...)...)
	}
	return old
}

func newerCRD(t *testing.T) map[string]any {
	t.Helper()
	next := crd(t, "llmroutes")
	for _, path := range [][]string{{"spec", "properties", "budget"}, {"spec", "properties", "chain", "items", "properties", "kind"}} {
		field := append([]string{"schema", "openAPIV3Schema", "properties"}, path...)
		if err := unstructured.SetNestedMap(versionOf(next), map[string]any{"type": "string"}, field...); err != nil {
			t.Fatal(err)
		}
	}
	return next
}

func TestSkewIsToldByField(t *testing.T) {
	cases := map[string]struct {
		crd  map[string]any
		want skew
	}{
		"an older CRD": {olderCRD(t), skew{missing: []string{"spec.chain.capacityGroup", "spec.queue"}}},
		"a newer CRD":  {newerCRD(t), skew{unknown: []string{"spec.budget", "spec.chain.kind"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := skewOf(tc.crd, kindsNeeded["llmroutes"])
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(skew{})); diff != "" {
				t.Errorf("skew (-want +got):\n%s", diff)
			}
		})
	}
	other := crd(t, "llmroutes")
	versionOf(other)["name"] = "v1alpha0"
	if _, err := skewOf(other, kindsNeeded["llmroutes"]); err == nil {
		t.Error("a CRD without our version must be an error")
	}
}

// storedCRDs is an API server that has these CRDs.
type storedCRDs struct {
	client.Reader
	mu   sync.Mutex
	crds map[string]map[string]any
}

func (s *storedCRDs) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, _, _ := strings.Cut(key.Name, ".")
	if s.crds[resource] == nil {
		return apierrors.NewServiceUnavailable("away")
	}
	into.(*unstructured.Unstructured).Object = s.crds[resource]
	return nil
}

// crdMetrics notes what is recorded of CRDs.
type crdMetrics struct {
	noMetrics
	last map[string][2]int
}

func (m *crdMetrics) CRDSkew(crd string, missing, unknown int) {
	m.last[crd] = [2]int{missing, unknown}
}

func TestSkewIsFollowedAndToldOnce(t *testing.T) {
	var said []string
	ctx := logf.IntoContext(t.Context(), funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{}))
	server := &storedCRDs{crds: map[string]map[string]any{"llmroutes": olderCRD(t), "backendpins": crd(t, "backendpins")}}
	metrics := &crdMetrics{last: map[string][2]int{}}
	changes := 0
	s := &skews{reader: server, metrics: metrics, changed: func() { changes++ }}
	route := &storedRoute{unknown: []string{"spec.budget"}}

	s.compare(ctx)
	if s.ofRoute(route) != nil || s.ofPin(&storedPin{}) == nil || changes != 1 {
		t.Errorf("a CRD that cannot be read: %+v of a route, %+v of a pin, %d changes", s.ofRoute(route), s.ofPin(&storedPin{}), changes)
	}
	server.crds["proxyreports"] = crd(t, "proxyreports")
	s.compare(ctx)
	s.compare(ctx)
	want := &status.Skew{Dropped: []string{"spec.chain.capacityGroup", "spec.queue"}, Ignored: []string{"spec.budget"}}
	if diff := cmp.Diff(want, s.ofRoute(route)); diff != "" {
		t.Errorf("skew (-want +got):\n%s", diff)
	}
	if pin := s.ofPin(&storedPin{}); pin == nil || len(pin.Dropped)+len(pin.Ignored) > 0 || changes != 2 {
		t.Errorf("skew of a pin is %+v after %d changes", pin, changes)
	}
	delete(server.crds, "llmroutes")
	s.compare(ctx)
	if diff := cmp.Diff(want, s.ofRoute(route)); diff != "" || changes != 2 {
		t.Errorf("while the CRD cannot be read (-want +got):\n%s", diff)
	}
	server.crds["llmroutes"] = newerCRD(t)
	s.compare(ctx)
	if got := s.ofRoute(route); len(got.Dropped) != 0 || changes != 3 {
		t.Errorf("after an upgrade of the CRD %+v, %d changes", got, changes)
	}
	if got := metrics.last["llmroutes.spillway.dev"]; got != [2]int{0, 2} {
		t.Errorf("metrics say %v", got)
	}
	loud := slices.DeleteFunc(said, func(s string) bool { return !strings.Contains(s, "THAN THIS MANAGER") })
	if len(loud) != 2 || !strings.Contains(loud[0], "OLDER") || !strings.Contains(loud[1], "NEWER") {
		t.Errorf("it said %q, want each once", loud)
	}
}

// withoutFields is a CRD that lacks some fields.
func withoutFields(t *testing.T, resource string, paths ...[]string) map[string]any {
	t.Helper()
	old := crd(t, resource)
	for _, path := range paths {
		unstructured.RemoveNestedField(versionOf(old), append([]string{"schema", "openAPIV3Schema", "properties"}, path...)...)
	}
	return old
}

func TestSkewOfReportsIsToldOnRoutesAndThatOfPinsOnPins(t *testing.T) {
	server := &storedCRDs{crds: map[string]map[string]any{
		"llmroutes":    crd(t, "llmroutes"),
		"backendpins":  withoutFields(t, "backendpins", []string{"spec", "properties", "reason"}),
		"proxyreports": withoutFields(t, "proxyreports", []string{"status", "properties", "draining"}),
	}}
	s := &skews{reader: server, metrics: noMetrics{}, changed: func() {}}
	s.compare(t.Context())
	wantRoute := &status.Skew{Dropped: []string{"status.draining of ProxyReports"}}
	if diff := cmp.Diff(wantRoute, s.ofRoute(&storedRoute{})); diff != "" {
		t.Errorf("skew of a route (-want +got):\n%s", diff)
	}
	wantPin := &status.Skew{Dropped: []string{"spec.reason"}, Ignored: []string{"spec.new"}}
	if diff := cmp.Diff(wantPin, s.ofPin(&storedPin{unknown: []string{"spec.new"}})); diff != "" {
		t.Errorf("skew of a pin (-want +got):\n%s", diff)
	}
}

func TestCRDsAreComparedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &storedCRDs{crds: map[string]map[string]any{}}
		changes := 0
		s := &skews{reader: server, metrics: noMetrics{}, clock: clock.RealClock{}, changed: func() { changes++ }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = s.Start(ctx) }()
		synctest.Wait()
		server.mu.Lock()
		server.crds["backendpins"] = crd(t, "backendpins")
		server.mu.Unlock()
		time.Sleep(compareCRDsEvery)
		synctest.Wait()
		if changes != 1 {
			t.Errorf("%d changes noticed, want the one", changes)
		}
	})
}
