package standalone

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

const towerAndHosted = `apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: default, namespace: sirens-echo}
spec:
  chain:
  - {name: tower, url: "http://tower.lan:11434/v1", auth: {secretRef: {name: key, key: token}}}
  - {name: hosted, url: "https://api.example.com/v1"}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: sirens-echo}
stringData: {token: swordfish}
---
apiVersion: spillway.dev/v1alpha1
kind: BackendPin
metadata: {name: game-night, namespace: sirens-echo}
spec: {routes: {names: [default]}, backend: hosted, mode: Prefer, startsAt: 2026-08-13T19:00:00Z, duration: 4h, reason: game night}
---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: broken, namespace: sirens-echo}
spec:
  chain:
  - {name: tower, url: "tower.lan:11434"}
`

// page is one over towerAndHosted, whose breakers the test sets.
func page(t *testing.T, at time.Time) (p *Page, clock *clocktesting.FakeClock, breakers *[]v1alpha1.BreakerReport, loaded *Loaded) {
	t.Helper()
	breakers = &[]v1alpha1.BreakerReport{}
	clock = clocktesting.NewFakeClock(at)
	p = NewPage("v1", func() v1alpha1.ProxyReportStatus { return v1alpha1.ProxyReportStatus{Ready: true, Breakers: *breakers} })
	p.clock = clock
	dir := newFolder("")
	dir.update("routes.yaml", []byte(towerAndHosted), nil)
	c := dir.collect()
	c.Snapshot.Salt = []byte("salt")
	result := compiler.Compile(c.Snapshot, at)
	loaded = &Loaded{At: at, Files: 1, Snapshot: c.Snapshot, Result: result, Mistakes: c.mistakes(&result)}
	return p, clock, breakers, loaded
}

func ask(t *testing.T, p *Page, target, accept string) (code int, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	for _, secret := range []string{"swordfish", "tower.lan", "example.com"} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("the page shows %s", secret)
		}
	}
	return w.Code, w.Body.String()
}

func TestPageSaysWhatKubectlWould(t *testing.T) {
	at := time.Date(2026, time.August, 13, 18, 0, 0, 0, time.UTC)
	p, clock, breakers, loaded := page(t, at)
	if code, _ := ask(t, p, "/statusz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("before the manifests are read the code is %d", code)
	}
	p.Load(loaded)
	clock.Step(time.Minute)
	since := metav1.NewMicroTime(clock.Now())
	*breakers = []v1alpha1.BreakerReport{{
		ID: string(loaded.Result.Table().ByKey("sirens-echo/default").Chain[0].ID), State: v1alpha1.BackendOpen, Reason: "Saturated",
		Since: &since, Remaining: "15m", Epoch: 1, Saturations: 2, Message: "no first token within 30s",
	}}
	_, got := ask(t, p, "/statusz", "text/html,*/*")
	want := `Spillway proxy v1, without a cluster; manifests read at 2026-08-13T18:00:00Z, files: 1

ROUTE                 MODEL                 STATE       SERVING   PINNED   READY   CHAIN           RETRY                  REASON
sirens-echo/broken    sirens-echo/broken    Down                           False   tower!                                 InvalidURL
sirens-echo/default   sirens-echo/default   Saturated   hosted             True    tower!,hosted   2026-08-13T18:16:00Z   Saturated

ROUTE                 BACKEND   STATE      REASON       SINCE                  RETRY                  MESSAGE
sirens-echo/broken    tower     Excluded   InvalidURL                                                 Backend "tower" is left out: the URL must begin with http:// or https://.
sirens-echo/default   tower     Open       Saturated    2026-08-13T18:01:00Z   2026-08-13T18:16:00Z   no first token within 30s
sirens-echo/default   hosted    Closed

PIN                      BACKEND   MODE     ROUTES    PHASE     EXPIRES                REASON
sirens-echo/game-night   hosted    Prefer   default   Pending   2026-08-13T23:00:00Z   game night

MISTAKES
routes.yaml:24: LLMRoute sirens-echo/broken: spec.chain[0].url: Backend "tower" is left out: the URL must begin with http:// or https://.
`
	got = regexp.MustCompile(` +\n`).ReplaceAllString(got, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestPageAsJSON(t *testing.T) {
	p, clock, _, loaded := page(t, time.Date(2026, time.August, 13, 20, 0, 0, 0, time.UTC))
	p.Load(loaded)
	for _, tc := range []struct{ target, accept string }{{"/statusz?format=json", ""}, {"/statusz", "application/json"}} {
		_, body := ask(t, p, tc.target, tc.accept)
		var got view
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%v: %v", tc, err)
		}
		route := got.Routes[1].Status
		if route.Pinned != "hosted until 2026-08-13T23:00:00Z (game-night)" || route.Proxies != "1/1" || got.Pins[0].Status.Phase != v1alpha1.PinActive || got.Mistakes[0].Line != 24 {
			t.Errorf("%v: %s", tc, body)
		}
	}
	clock.Step(4 * time.Hour)
	if _, body := ask(t, p, "/statusz", ""); !strings.Contains(body, "Expired") {
		t.Errorf("the pin has ended, but the page says:\n%s", body)
	}
	if code, _ := ask(t, p, "/statusz?format=xml", ""); code != http.StatusBadRequest {
		t.Errorf("an unknown format gets %d", code)
	}
}

func TestPageDatesWhatHappensWhenItHappens(t *testing.T) {
	start := time.Date(2026, time.August, 13, 18, 0, 0, 0, time.UTC)
	p, clock, _, loaded := page(t, start)
	p.Load(loaded)
	if next := p.refresh(); !next.Equal(start.Add(time.Hour)) {
		t.Errorf("the next change is at %s, want the pin's start", next)
	}
	clock.Step(time.Hour)
	p.refresh() // as Run does
	clock.Step(time.Hour)
	_, body := ask(t, p, "/statusz?format=json", "")
	var got view
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Pins[0].Status.Conditions {
		if c.Type == string(v1alpha1.ConditionActive) && !c.LastTransitionTime.Equal(&metav1.Time{Time: start.Add(time.Hour)}) {
			t.Errorf("the pin is active since %s, want %s", c.LastTransitionTime, start.Add(time.Hour))
		}
	}
}
