package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/apiclient"
)

// shelf is an API server's handling of one ProxyReport, for tests of timing, which need a clock of their own. The suite
// in apitest has the real one.
type shelf struct {
	mu      sync.Mutex
	stored  *v1alpha1.ProxyReport
	version int
	calls   []string // method, and the second since start in which it came
	start   time.Time
	refuse  func(method string) *apierrors.StatusError
}

func (s *shelf) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("%s %s", r.Method, time.Since(s.start)))
	if s.refuse != nil {
		if err := s.refuse(r.Method); err != nil {
			return answer(int(err.ErrStatus.Code), &err.ErrStatus)
		}
	}
	resource := v1alpha1.Resource(reports)
	sent := &v1alpha1.ProxyReport{}
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, sent)
	}
	var failure *apierrors.StatusError
	switch {
	case r.Method == http.MethodPost && s.stored != nil:
		failure = apierrors.NewAlreadyExists(resource, "self")
	case r.Method != http.MethodPost && s.stored == nil:
		failure = apierrors.NewNotFound(resource, "self")
	case r.Method == http.MethodPut && sent.ResourceVersion != s.stored.ResourceVersion:
		failure = apierrors.NewConflict(resource, "self", nil)
	case r.Method == http.MethodPut || r.Method == http.MethodPost:
		s.put(sent)
	case r.Method == http.MethodDelete:
		s.stored = nil
		return answer(http.StatusOK, &metav1.Status{Status: metav1.StatusSuccess})
	}
	if failure != nil {
		return answer(int(failure.ErrStatus.Code), &failure.ErrStatus)
	}
	return answer(http.StatusOK, s.stored)
}

func (s *shelf) put(report *v1alpha1.ProxyReport) {
	s.version++
	report.ResourceVersion = strconv.Itoa(s.version)
	s.stored = report
}

// object is the report as it is stored.
func (s *shelf) object() *v1alpha1.ProxyReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}

// take returns the calls since the last one.
func (s *shelf) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func answer(code int, object runtime.Object) (*http.Response, error) {
	if status, ok := object.(*metav1.Status); ok {
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	}
	body, err := json.Marshal(object)
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body))}, err
}

type writerFixture struct {
	*writer
	*shelf
	ready atomic.Bool
	found []*v1alpha1.ProxyReport
	stop  func()
}

// startWriter runs a writer in a bubble of synctest.
func startWriter(t *testing.T, s *shelf) *writerFixture {
	t.Helper()
	s.start = time.Now()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client, err := apiclient.NewREST(&rest.Config{Host: "http://api"}, &http.Client{Transport: s}, scheme,
		apiclient.API{Root: "/apis", Version: v1alpha1.GroupVersion, ContentType: runtime.ContentTypeJSON})
	if err != nil {
		t.Fatal(err)
	}
	f := &writerFixture{shelf: s}
	f.writer = &writer{
		client: client, namespace: "ns", pod: "self", podUID: "uid", clock: clock.RealClock{}, log: slog.New(slog.DiscardHandler),
		status: func() v1alpha1.ProxyReportStatus {
			return v1alpha1.ProxyReportStatus{Pod: "self", Ready: f.ready.Load()}
		},
		fleet:   func() int { return 0 }, // which spreads nothing
		found:   func(r *v1alpha1.ProxyReport) { f.found = append(f.found, r) },
		urgent:  make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.run(ctx) }()
	f.stop = func() { cancel(); <-done }
	t.Cleanup(f.stop)
	synctest.Wait()
	return f
}

// change makes a report differ from the last one and says so.
func (f *writerFixture) change(urgent bool) {
	f.ready.Store(!f.ready.Load())
	f.notify(urgent)
	synctest.Wait()
}

func wantCalls(t *testing.T, step string, f *writerFixture, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, f.take()); diff != "" {
		t.Errorf("%s: calls (-want +got):\n%s", step, diff)
	}
}

func TestWriterCreatesThenRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startWriter(t, &shelf{})
		wantCalls(t, "at start", f, "GET 0s", "POST 0s")
		if diff := cmp.Diff([]*v1alpha1.ProxyReport{nil}, f.found); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
		owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "self", UID: "uid"}}
		if diff := cmp.Diff(owner, f.object().OwnerReferences); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		first := f.object().Status.RenewTime
		time.Sleep(2 * renewInterval)
		wantCalls(t, "while nothing changes", f, "PUT 15s", "PUT 30s")
		if !f.object().Status.RenewTime.After(first.Time) {
			t.Error("renewTime did not move")
		}
		f.stop()
		f.delete()
		wantCalls(t, "at the end", f, "DELETE 30s")
	})
}

func TestWriterPacesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startWriter(t, &shelf{})
		f.take()
		time.Sleep(5 * time.Second)
		f.change(false)
		time.Sleep(10 * time.Millisecond)
		f.change(false)
		f.change(false)
		time.Sleep(100 * time.Millisecond)
		wantCalls(t, "changes after a pause go out together", f, "PUT 5.05s")
		f.change(false)
		time.Sleep(2 * time.Second)
		wantCalls(t, "the next ones keep the interval", f, "PUT 6.05s")
		f.change(false)
		f.change(true)
		wantCalls(t, "an urgent one waits for nothing", f)
		f.change(true)
		wantCalls(t, "an urgent one waits for nothing", f, "PUT 7.11s")
		f.notify(true)
		f.notify(false)
		time.Sleep(2 * time.Second)
		wantCalls(t, "what is said already is not said again", f)
	})
}

func TestWriterSurvivesWhatHappensToItsObject(t *testing.T) {
	cases := map[string]struct {
		happens func(*shelf)
		want    []string
	}{
		"it was deleted": {func(s *shelf) { s.stored = nil }, []string{"PUT 0s", "GET 0s", "POST 0s"}},
		"it was written by somebody": {func(s *shelf) { s.stored.ResourceVersion = "other" },
			[]string{"PUT 0s", "GET 0s", "PUT 0s"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startWriter(t, &shelf{})
				f.take()
				tc.happens(f.shelf)
				f.change(true)
				wantCalls(t, "after it", f, tc.want...)
				if !f.object().Status.Ready {
					t.Error("the change is not in the report")
				}
			})
		})
	}
}

func TestWriterHandsOverTheReportOfItsLastLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		s.put(report("self", ""))
		f := startWriter(t, s)
		wantCalls(t, "at start", f, "GET 0s", "PUT 0s")
		if len(f.found) != 1 || f.found[0] == nil || len(f.found[0].Status.Breakers) != 1 {
			t.Errorf("found %v, want the old report with its breaker", f.found)
		}
	})
}

func TestWriterTriesOn(t *testing.T) {
	resource := v1alpha1.Resource(reports)
	cases := map[string]struct {
		refusal *apierrors.StatusError
		want    []string
	}{
		"often, when the server has trouble": {apierrors.NewInternalError(io.ErrUnexpectedEOF),
			[]string{"GET 0s", "GET 100ms", "GET 300ms", "GET 700ms", "GET 1.5s", "GET 2.5s"}},
		"ever more seldom, when a permission is missing": {apierrors.NewForbidden(resource, "self", nil),
			[]string{"GET 0s", "GET 100ms", "GET 300ms", "GET 700ms", "GET 1.5s"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startWriter(t, &shelf{refuse: func(string) *apierrors.StatusError { return tc.refusal }})
				time.Sleep(time.Second)
				f.notify(false) // neither breaks the back-off
				f.change(true)
				time.Sleep(2 * time.Second)
				wantCalls(t, "while it is refused", f, tc.want...)
				f.mu.Lock()
				f.refuse = nil
				f.mu.Unlock()
				time.Sleep(refusedMax)
				synctest.Wait()
				if f.object() == nil || !f.object().Status.Ready {
					t.Error("the report was not written when it was possible again")
				}
			})
		})
	}
}

func TestALargeFleetDoesNotWriteAtOneMoment(t *testing.T) {
	now := time.Unix(0, 0)
	cases := map[string]struct {
		proxies int
		longest time.Duration // after gatherFor
	}{
		"one waits hardly":                    {1, 5 * time.Millisecond},
		"two wait hardly":                     {2, 10 * time.Millisecond},
		"a hundred spread over half a second": {100, 500 * time.Millisecond},
		"very many never wait over a second":  {10_000, writeInterval - gatherFor},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var first, second int
			for i := range 1000 {
				w := &writer{pod: fmt.Sprintf("spillway-proxy-7d9f8b6c5-%05d", i), clock: clocktesting.NewFakeClock(now), fleet: func() int { return tc.proxies }}
				wait := w.soon().Sub(now) - gatherFor
				switch {
				case wait < 0 || wait >= tc.longest:
					t.Fatalf("%s waits for %v more, want less than %v", w.pod, wait, tc.longest)
				case wait < tc.longest/2:
					first++
				default:
					second++
				}
			}
			if min(first, second) < 400 {
				t.Errorf("%d write in the first half of the time and %d in the second, want about as many", first, second)
			}
		})
	}
}
