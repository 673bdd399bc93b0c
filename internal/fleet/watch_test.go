package fleet

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// newSource is a source whose requests are answered by serve.
func newSource(t *testing.T, outages *int, serve roundTrip) *source {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := newClient(&rest.Config{Host: "http://api"}, clock.RealClock{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.spillway.(*rest.RESTClient).Client = &http.Client{Transport: serve}
	return &source{client: c.spillway, params: c.params, resource: reports, namespace: "ns", clock: clock.RealClock{},
		outages: func() int { return *outages }}
}

func jsonAnswer(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// A server that has lost its data counts from the start. It would keep a client that names a version from before waiting
// until it has come as far, and a watch from there would be silent.
func TestNothingIsReadFromAVersionOfBeforeAnOutage(t *testing.T) {
	outages := 0
	var asked []url.Values
	s := newSource(t, &outages, func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Query())
		return jsonAnswer(io.NopCloser(strings.NewReader(`{"kind":"ProxyReportList","apiVersion":"spillway.dev/v1alpha1","metadata":{"resourceVersion":"7"}}`))), nil
	})
	read := s.listWatch()
	list := func() {
		t.Helper()
		if _, err := read.ListWithContextFunc(t.Context(), metav1.ListOptions{ResourceVersion: "900"}); err != nil {
			t.Fatal(err)
		}
	}
	watch := func(o metav1.ListOptions) error {
		w, err := read.WatchFuncWithContext(t.Context(), o)
		if err == nil {
			w.Stop()
		}
		return err
	}
	list()
	if err := watch(metav1.ListOptions{ResourceVersion: "7"}); err != nil {
		t.Fatal(err)
	}
	outages++
	if err := watch(metav1.ListOptions{ResourceVersion: "7"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch of what was read before an outage: %v", err)
	}
	list()
	outages++
	if err := watch(metav1.ListOptions{ResourceVersion: "900", SendInitialEvents: ptr.To(true)}); err != nil {
		t.Errorf("a list in the form of a watch: %v", err)
	}
	if err := watch(metav1.ListOptions{ResourceVersion: "8"}); err != nil {
		t.Errorf("a watch of what was read since: %v", err)
	}
	var versions []string
	for _, query := range asked {
		versions = append(versions, query.Get("resourceVersion"))
	}
	if diff := cmp.Diff([]string{"", "7", "", "", "8"}, versions); diff != "" {
		t.Errorf("versions asked for (-want +got):\n%s", diff)
	}
}

// While the server is away a request waits at the gate, so it goes to the server as it has come back.
func TestAWatchThatHasWaitedForTheServerIsNoWatch(t *testing.T) {
	outages := 0
	body, server := io.Pipe()
	s := newSource(t, &outages, func(*http.Request) (*http.Response, error) {
		outages++ // an answer ends the outage
		return jsonAnswer(body), nil
	})
	w, err := s.listWatch().WatchFuncWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if w != nil || !apierrors.IsResourceExpired(err) {
		t.Errorf("the watch is %v, %v", w, err)
	}
	if _, err := server.Write([]byte("{")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the server writes on: %v", err)
	}
}
