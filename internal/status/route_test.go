package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestRouteSummary(t *testing.T) {
	tower, hosted := open("id-tower", v1alpha1.BackendSaturated, 1), open("id-hosted", v1alpha1.BackendFailing, 1)
	full := open("id-tower", v1alpha1.BackendRefused, 1)
	broken := open("id-tower", v1alpha1.BackendMisconfigured, 1)
	pinnedTo := func(in RouteInput, pins ...table.Pin) RouteInput {
		for i := range pins {
			pins[i].StartsAt, pins[i].ExpiresAt = now.Add(-time.Hour), now.Add(101*time.Minute)
		}
		in.Entry.Pins = pins
		return in
	}
	prefer := table.Pin{Name: "game-night", Backend: "hosted", Mode: table.PinPrefer}
	avoid := table.Pin{Name: "spare-it", Backend: "tower", Mode: table.PinAvoid}
	only := table.Pin{Name: "just-tower", Backend: "tower", Mode: table.PinOnly}
	ended := input(proxyReport("p1"))
	ended.Entry.Pins = []table.Pin{{Name: "over", Backend: "hosted", Mode: table.PinPrefer, ExpiresAt: now}}

	// A summary is the row of kubectl get -o wide: state, serving, pinned, proxies, chain, retryAt, reason.
	cases := map[string]struct {
		in   RouteInput
		want string
	}{
		"all is well":                    {input(proxyReport("p1"), proxyReport("p2"), proxyReport("p3")), "Healthy|tower||3/3|tower,hosted||"},
		"the first is saturated":         {input(proxyReport("p1", tower)), "Saturated|hosted||1/1|tower!,hosted|2026-08-13T21:34:00Z|Saturated"},
		"the first says that it is full": {input(proxyReport("p1", full)), "Saturated|hosted||1/1|tower!,hosted|2026-08-13T21:34:00Z|Refused"},
		"the first is misconfigured":     {input(proxyReport("p1", broken)), "Failing|hosted||1/1|tower!,hosted|2026-08-13T21:34:00Z|Misconfigured"},
		"only a later one is open":       {input(proxyReport("p1", hosted)), "Degraded|tower||1/1|tower,hosted!|2026-08-13T21:34:00Z|Failing"},
		"all are open":                   {input(proxyReport("p1", tower, hosted)), "Down|||1/1|tower!,hosted!|2026-08-13T21:34:00Z|AllBackendsOpen"},
		"nobody is there":                {input(), "Unknown|||0/0|tower,hosted||NoProxies"},
		"one lags":                       {input(proxyReport("p1"), behind("p2")), "Healthy|tower||1/2|tower,hosted||Pending"},
		"another holds the model":        {refused(input(proxyReport("p1"))), "Down|||1/1|tower,hosted||ModelConflict"},
		"an earlier version is served":   {tooLarge(input(proxyReport("p1", tower))), "Saturated|backup||0/1|tower!,backup|2026-08-13T21:34:00Z|TableFull"},
		"the table cannot be written":    {unwritten(input(proxyReport("p1", tower))), "Saturated|backup||0/1|tower!,backup|2026-08-13T21:34:00Z|Pending"},
		"no version fits":                {never(input(proxyReport("p1"))), "Down|||0/1|tower,hosted||TableFull"},
		"the first is left out":          {without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), "Healthy|hosted||1/1|tower!,hosted||SecretNotFound"},
		"a pin puts the other first":     {pinnedTo(input(proxyReport("p1")), prefer), "Healthy|hosted|hosted until 2026-08-13T23:00:00Z (game-night)|1/1|tower,hosted||"},
		"the one behind the pin is open": {pinnedTo(input(proxyReport("p1", tower)), prefer), "Degraded|hosted|hosted until 2026-08-13T23:00:00Z (game-night)|1/1|tower!,hosted|2026-08-13T21:34:00Z|Saturated"},
		"the pinned one is open":         {pinnedTo(input(proxyReport("p1", hosted)), prefer), "Failing|tower|hosted until 2026-08-13T23:00:00Z (game-night)|1/1|tower,hosted!|2026-08-13T21:34:00Z|Failing"},
		"the newest of two pins shows":   {pinnedTo(input(proxyReport("p1")), prefer, avoid), "Healthy|hosted|not tower until 2026-08-13T23:00:00Z (spare-it)|1/1|tower,hosted||"},
		"an Only shows whatever its age": {pinnedTo(input(proxyReport("p1")), only, prefer), "Healthy|tower|only tower until 2026-08-13T23:00:00Z (just-tower)|1/1|tower,hosted||"},
		"the only one allowed is open":   {pinnedTo(input(proxyReport("p1", tower)), only), "Down||only tower until 2026-08-13T23:00:00Z (just-tower)|1/1|tower!,hosted|2026-08-13T21:34:00Z|AllBackendsOpen"},
		"the only one allowed is left out": {pinnedTo(without(input(proxyReport("p1")), "tower", v1alpha1.ReasonSecretNotFound), only),
			"Down||only tower until 2026-08-13T23:00:00Z (just-tower)|1/1|tower!,hosted||NoUsableBackend"},
		"a pin is over at its end": {ended, "Healthy|tower||1/1|tower,hosted||"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := Route(tc.in)
			retry := ""
			if s.RetryAt != nil {
				retry = clock(s.RetryAt.Time)
			}
			got := strings.Join([]string{string(s.State), s.Serving, s.Pinned, s.Proxies, s.Chain, retry, s.Reason}, "|")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackendsAreListedInChainOrder(t *testing.T) {
	in := without(input(proxyReport("p1", open("id-hosted", v1alpha1.BackendFailing, 1)), proxyReport("p2")), "tower", v1alpha1.ReasonSecretNotFound)
	want := []v1alpha1.BackendStatus{
		{Name: "tower", State: v1alpha1.BackendExcluded, Reason: "SecretNotFound", Message: "Secret tower does not exist."},
		{Name: "hosted", State: v1alpha1.BackendOpen, Reason: "Failing", Since: at(now.Add(-time.Minute)), RetryAt: at(now.Add(15 * time.Minute)), Proxies: "1/2", Message: "no first token within 20s"},
	}
	if diff := cmp.Diff(want, Route(in).Backends); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
	endpoint := v1alpha1.BreakerReport{ID: "id-tower", State: v1alpha1.BackendClosed, Endpoints: []v1alpha1.EndpointReport{{Endpoint: "embeddings", Remaining: "30s"}}}
	want = []v1alpha1.BackendStatus{
		{Name: "tower", State: v1alpha1.BackendClosed, Reason: "Misconfigured", Message: "passed over for embeddings: the backend does not serve it"},
		{Name: "hosted", State: v1alpha1.BackendClosed},
	}
	if diff := cmp.Diff(want, Route(input(proxyReport("p1", endpoint))).Backends); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
}

// A status with a name that its schema refuses is refused whole, and then nobody learns what is wrong with the route.
func TestBackendsThatNoStatusCanNameAreNotListed(t *testing.T) {
	in := input(proxyReport("p1"))
	for _, name := range []string{"", strings.Repeat("x", 64), "tower"} {
		in.Verdict.Backends = append(in.Verdict.Backends, compiler.BackendVerdict{Name: name})
	}
	var names []string
	for _, b := range Route(in).Backends {
		names = append(names, b.Name+" "+string(b.State))
	}
	if diff := cmp.Diff([]string{"tower Closed", "hosted Closed"}, names); diff != "" {
		t.Errorf("backends (-want +got):\n%s", diff)
	}
}

func TestStatusNamesItsGenerationAndTheFirstRetry(t *testing.T) {
	soon := open("id-hosted", v1alpha1.BackendFailing, 1)
	soon.Remaining = "5m"
	for name, breakers := range map[string][]v1alpha1.BreakerReport{
		"the later one first":  {open("id-tower", v1alpha1.BackendSaturated, 1), soon},
		"the sooner one alone": {soon},
	} {
		s := Route(input(proxyReport("p1", breakers...)))
		if s.ObservedGeneration != 3 || s.RetryAt == nil || !s.RetryAt.Time.Equal(now.Add(5*time.Minute)) {
			t.Errorf("%s: generation %d, retryAt %v; want 3 and the sooner", name, s.ObservedGeneration, s.RetryAt)
		}
	}
	early := open("id-tower", v1alpha1.BackendSaturated, 1)
	early.Remaining = "1m"
	if s := Route(input(proxyReport("p1", early, soon))); !s.RetryAt.Time.Equal(now.Add(time.Minute)) {
		t.Errorf("retryAt = %v, want that of the first backend", s.RetryAt)
	}
	for _, b := range Route(input()).Backends {
		if b.State != v1alpha1.BackendUnknown {
			t.Errorf("without a proxy %s is %s, want Unknown", b.Name, b.State)
		}
	}
}

// The bounds of the CRD, at their worst.
func TestRouteStatusIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	in := input(proxyReport("p1", v1alpha1.BreakerReport{ID: "id-tower", State: v1alpha1.BackendOpen, Reason: v1alpha1.BackendReason(long), Message: long, Remaining: "1m"}))
	in.Verdict.Model = long
	in.Verdict.Backends[1].Usable, in.Verdict.Backends[1].Problems = false, []compiler.Problem{{Reason: v1alpha1.ReasonSecretNotFound, Message: long}}
	in.Verdict.Problems = []compiler.Problem{{Condition: v1alpha1.ConditionResolvedRefs, Reason: v1alpha1.ReasonSecretNotFound, Message: long}}
	in.Entry.Pins = []table.Pin{{Name: long, Backend: "tower", Mode: table.PinOnly, ExpiresAt: now.Add(time.Hour)}}
	for i := range 6 {
		in.Verdict.Backends = append(in.Verdict.Backends, compiler.BackendVerdict{Name: fmt.Sprintf("%d%s", i, strings.Repeat("x", 62))})
	}
	s := Route(in)
	for what, is := range map[string]struct {
		text string
		most int
	}{
		"model": {s.Model, 512}, "pinned": {s.Pinned, 512}, "chain": {s.Chain, 1024}, "reason": {s.Reason, 64},
		"message of an open backend": {s.Backends[0].Message, 512}, "reason of an open backend": {s.Backends[0].Reason, 64},
		"message of an excluded backend": {s.Backends[1].Message, 512},
		"message of a condition":         {conditionOf(s.Conditions, v1alpha1.ConditionResolvedRefs).Message, 32768},
	} {
		if is.text == "" || utf8.RuneCountInString(is.text) > is.most || !utf8.ValidString(is.text) {
			t.Errorf("%s has %d characters, want some and at most %d", what, utf8.RuneCountInString(is.text), is.most)
		}
	}
	if len(s.Backends) != 8 {
		t.Errorf("%d backends are listed, want 8", len(s.Backends))
	}
}

// Nothing changes while nothing happens: a status goes through the API server's JSON, time passes, reports are renewed.
func TestStatusHoldsStill(t *testing.T) {
	later := func(wait, remaining time.Duration) RouteInput {
		b := open("id-tower", v1alpha1.BackendSaturated, 1)
		b.Remaining = v1alpha1.FormatDuration(remaining)
		r := proxyReport("p1", b)
		r.Status.RenewTime = metav1.NewMicroTime(now.Add(wait))
		in := input(r)
		in.Now = now.Add(wait)
		return in
	}
	cases := map[string]struct {
		in          RouteInput
		wantRetryAt time.Time
	}{
		"a renewal":                              {later(15*time.Second, 15*time.Minute-15*time.Second), now.Add(15 * time.Minute)},
		"a renewal that is a little off":         {later(15*time.Second, 15*time.Minute-16*time.Second-499*time.Millisecond), now.Add(15 * time.Minute)},
		"a cooldown that is over, probe to come": {later(16*time.Minute, 0), now.Add(15 * time.Minute)},
		"an extension shows":                     {later(time.Minute, 20*time.Minute), now.Add(21 * time.Minute)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := throughJSON(t, Route(later(0, 15*time.Minute)))
			tc.in.Route.Status = stored
			got := Route(tc.in)
			if !got.RetryAt.Time.Equal(tc.wantRetryAt) {
				t.Errorf("retryAt = %s, want %s", clock(got.RetryAt.Time), clock(tc.wantRetryAt))
			}
			if tc.wantRetryAt.Equal(stored.RetryAt.Time) {
				if diff := cmp.Diff(stored, throughJSON(t, got)); diff != "" {
					t.Errorf("status (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// What somebody writes into the status by hand does not stay, apart from what could be so.
func TestStatusUndoesWhatOthersWrite(t *testing.T) {
	b := open("id-tower", v1alpha1.BackendSaturated, 1)
	over := b
	over.Remaining = "" // the cooldown is over
	future := *at(now.Add(time.Hour))
	cases := map[string]struct {
		in    RouteInput
		forge func(*v1alpha1.LLMRouteStatus)
	}{
		"a time of retry":                  {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) { s.Backends[0].RetryAt = &future }},
		"a time of retry when none is due": {input(proxyReport("p1", over)), func(s *v1alpha1.LLMRouteStatus) { s.Backends[0].RetryAt, s.RetryAt = &future, &future }},
		"a time of opening":                {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) { s.Backends[0].Since = &future }},
		"a state": {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) {
			s.Backends[0] = v1alpha1.BackendStatus{Name: "tower", State: v1alpha1.BackendClosed}
		}},
		"another backend": {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) {
			s.Backends = append(s.Backends, v1alpha1.BackendStatus{Name: "ghost"})
		}},
		"a summary": {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) {
			s.State, s.Serving, s.Pinned, s.Proxies, s.Chain, s.Reason = "Healthy", "ghost", "x", "9/9", "y", "z"
		}},
		"a condition": {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) {
			s.Conditions[4].Status, s.Conditions[4].Message = metav1.ConditionFalse, "no"
		}},
		"a condition from the future": {input(proxyReport("p1", b)), func(s *v1alpha1.LLMRouteStatus) { s.Conditions[0].LastTransitionTime = future }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := throughJSON(t, Route(tc.in))
			tc.in.Route.Status = throughJSON(t, Route(tc.in))
			tc.forge(&tc.in.Route.Status)
			sorted := cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })
			if diff := cmp.Diff(want, throughJSON(t, Route(tc.in)), sorted); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionsFlipTheirTimeWithTheirStatus(t *testing.T) {
	in := input(proxyReport("p1"))
	in.Route.Status = throughJSON(t, Route(in))
	lag := input(behind("p1"))
	lag.Route, lag.Now = in.Route, now.Add(time.Minute)
	after := Route(lag)
	for kind, want := range map[v1alpha1.ConditionType]time.Time{
		v1alpha1.ConditionAccepted: now, v1alpha1.ConditionProgrammed: now.Add(time.Minute), v1alpha1.ConditionReady: now.Add(time.Minute),
	} {
		if got := conditionOf(after.Conditions, kind).LastTransitionTime; !got.Time.Equal(want) {
			t.Errorf("%s.lastTransitionTime = %s, want %s", kind, clock(got.Time), clock(want))
		}
	}
}

func throughJSON(t *testing.T, s v1alpha1.LLMRouteStatus) v1alpha1.LLMRouteStatus {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back v1alpha1.LLMRouteStatus
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func TestAModelOfAnyScriptIsToldWhole(t *testing.T) {
	in := input(proxyReport("p1"))
	in.Verdict.Model = strings.Repeat("𠮷", 253) // the most that the schema takes
	if got := Route(in).Model; got != in.Verdict.Model {
		t.Errorf("model = %q, cut", got)
	}
	for text, want := range map[string]string{"äöü": "äöü", "äöüß": "äö…", "𠮷野家": "𠮷野家"} {
		if got := cut(text, 3); got != want {
			t.Errorf("cut(%q, 3) = %q, want %q", text, got, want)
		}
	}
}

func TestCutKeepsCharactersWhole(t *testing.T) {
	cases := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short enough":         {"tower", 5, "tower"},
		"too long":             {"towers of babel", 9, "towers…"},
		"inside of characters": {"äöü", 5, "ä…"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cutBytes(tc.text, tc.limit); got != tc.want {
				t.Errorf("cutBytes = %q, want %q", got, tc.want)
			}
		})
	}
}
