package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// chainOf makes a route of the backends a, b and c.
func chainOf(edits ...func(*table.Route)) *table.Route {
	r := &table.Route{Namespace: "ns", Name: "r", WhenAllOpen: table.AllOpenTry, PreferHeader: table.PreferHonor,
		Chain: []table.Backend{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3", Name: "c"}}}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func pins(list ...table.Pin) func(*table.Route) {
	return func(r *table.Route) {
		for _, p := range list {
			p.StartsAt, p.ExpiresAt = now.Add(-time.Hour), now.Add(time.Hour)
			r.Pins = append(r.Pins, p)
		}
	}
}

// windows sets the context windows of the chain, in order.
func windows(tokens ...int64) func(*table.Route) {
	return func(r *table.Route) {
		for i, n := range tokens {
			r.Chain[i].ContextWindow = n
		}
	}
}

func ignoreHints(r *table.Route) { r.PreferHeader = table.PreferIgnore }
func reject(r *table.Route)      { r.WhenAllOpen = table.AllOpenReject }

// open is the remaining time of each backend that cannot be used.
type open map[string]time.Duration

func (o open) view(b *table.Backend) breaker.View {
	if remaining, is := o[b.Name]; is {
		return breaker.View{State: breaker.Open, Reason: breaker.ReasonSaturated, Remaining: remaining}
	}
	return breaker.View{State: breaker.Closed, Usable: true}
}

func TestMake(t *testing.T) {
	prefer := func(b string) table.Pin { return table.Pin{Backend: b, Mode: table.PinPrefer} }
	avoid := func(b string) table.Pin { return table.Pin{Backend: b, Mode: table.PinAvoid} }
	only := func(b string) table.Pin { return table.Pin{Backend: b, Mode: table.PinOnly} }
	cases := map[string]struct {
		route          *table.Route
		hint           string
		tokens         int64
		open           open
		wantSteps      string // names in order
		wantSkipped    string // name:why, in order
		wantReason     Why
		wantPreference Preference
		wantAllOpen    bool
		wantRetryAfter time.Duration
	}{
		"the chain's order": {route: chainOf(), wantSteps: "a b c", wantReason: WhyFirst},
		"a hint moves the named one to the front": {
			route: chainOf(), hint: " b ", wantSteps: "b a c", wantReason: WhyPreferred, wantPreference: PreferenceApplied},
		"an unknown hint changes nothing": {
			route: chainOf(), hint: "B", wantSteps: "a b c", wantReason: WhyFirst, wantPreference: PreferenceNotInChain},
		"a route may ignore hints": {
			route: chainOf(ignoreHints), hint: "b", wantSteps: "a b c", wantReason: WhyFirst, wantPreference: PreferenceIgnored},
		"pins have the last word over the hint": {
			route: chainOf(pins(prefer("c"))), hint: "b", wantSteps: "c b a", wantReason: WhyPinned, wantPreference: PreferenceIgnored},
		"a hint that a pin agrees with is applied": {
			route: chainOf(pins(prefer("b"))), hint: "b", wantSteps: "b a c", wantReason: WhyPinned, wantPreference: PreferenceApplied},
		"a pin that leaves the hint's choice first leaves its reason": {
			route: chainOf(pins(avoid("a"))), hint: "b", wantSteps: "b c a", wantReason: WhyPreferred, wantPreference: PreferenceApplied},
		"Avoid of the first": {route: chainOf(pins(avoid("a"))), wantSteps: "b c a", wantReason: WhyPinned},
		"Only filters": {
			route: chainOf(pins(only("b"))), wantSteps: "b", wantSkipped: "a:only-pin c:only-pin", wantReason: WhyPinned},
		"open ones are left out while another remains": {
			route: chainOf(), open: open{"a": time.Minute}, wantSteps: "b c", wantSkipped: "a:breaker-open", wantReason: WhyBreakerOpen},
		"a later open one does not change the reason": {
			route: chainOf(), open: open{"b": time.Minute}, wantSteps: "a c", wantSkipped: "b:breaker-open", wantReason: WhyFirst},
		"a pinned backend that is open is passed over": {
			route: chainOf(pins(prefer("b"))), open: open{"b": time.Minute}, wantSteps: "a c", wantSkipped: "b:breaker-open", wantReason: WhyBreakerOpen},
		"a hint for an open backend is ignored": {
			route: chainOf(), hint: "b", open: open{"b": time.Minute}, wantSteps: "a c", wantSkipped: "b:breaker-open",
			wantReason: WhyBreakerOpen, wantPreference: PreferenceIgnored},
		"everything open: the one whose retryAt comes first": {
			route: chainOf(), open: open{"a": time.Hour, "b": time.Minute, "c": 2 * time.Minute}, wantSteps: "b",
			wantSkipped: "a:breaker-open c:breaker-open", wantReason: WhyBreakerOpen, wantAllOpen: true, wantRetryAfter: time.Minute},
		"everything open at once: chain order decides": {
			route: chainOf(), open: open{"a": time.Minute, "b": time.Minute, "c": time.Minute}, wantSteps: "a",
			wantSkipped: "b:breaker-open c:breaker-open", wantReason: WhyBreakerOpen, wantAllOpen: true, wantRetryAfter: time.Minute},
		"everything open and Reject: nothing": {
			route: chainOf(reject), open: open{"a": time.Hour, "b": time.Minute, "c": 0},
			wantSkipped: "a:breaker-open b:breaker-open c:breaker-open", wantAllOpen: true},
		"an Only pin on an open backend leaves the last resort alone": {
			route: chainOf(pins(only("b"))), open: open{"b": time.Minute}, wantSteps: "b", wantSkipped: "a:only-pin c:only-pin",
			wantReason: WhyBreakerOpen, wantAllOpen: true, wantRetryAfter: time.Minute},
		"a window that is surely too small is skipped (D8)": {
			route: chainOf(windows(128000, 8000)), tokens: 10000, open: open{"a": time.Minute}, wantSteps: "c",
			wantSkipped: "b:context-window a:breaker-open", wantReason: WhyBreakerOpen},
		"a first backend with too small a window": {
			route: chainOf(windows(8000)), tokens: 8001, wantSteps: "b c", wantSkipped: "a:context-window", wantReason: WhySpilled},
		"a later backend with too small a window": {
			route: chainOf(windows(0, 8000)), tokens: 8001, wantSteps: "a c", wantSkipped: "b:context-window", wantReason: WhyFirst},
		"too large for all, and of two equal windows the first answers": {
			route: chainOf(windows(1, 3, 3)), tokens: 10, wantSteps: "b",
			wantSkipped: "a:context-window c:context-window", wantReason: WhySpilled},
		"a prompt that just fits": {route: chainOf(windows(8000)), tokens: 8000, wantSteps: "a b c", wantReason: WhyFirst},
		"too large for all: the largest window answers": {
			route: chainOf(windows(1, 3, 2)), tokens: 10, wantSteps: "b",
			wantSkipped: "a:context-window c:context-window", wantReason: WhySpilled},
		"a route without backends": {route: &table.Route{}, hint: "a", wantPreference: PreferenceNotInChain},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := Make(Input{Route: tc.route, Hint: tc.hint, Now: now, PromptTokens: tc.tokens, View: tc.open.view})
			type result struct {
				Steps, Skipped string
				Reason         Why
				Preference     Preference
				AllOpen        bool
				RetryAfter     time.Duration
			}
			want := result{tc.wantSteps, tc.wantSkipped, tc.wantReason, tc.wantPreference, tc.wantAllOpen, tc.wantRetryAfter}
			got := result{steps(p), skipped(p), p.Reason, p.Preference, p.AllOpen, p.RetryAfter}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMakeWithoutViewsTakesAllAsClosed(t *testing.T) {
	if got := steps(Make(Input{Route: chainOf(), Now: now})); got != "a b c" {
		t.Errorf("steps %q", got)
	}
}

func steps(p Plan) string {
	var names []string
	for _, s := range p.Steps {
		names = append(names, s.Backend.Name)
	}
	return strings.Join(names, " ")
}

func skipped(p Plan) string {
	var list []string
	for _, s := range p.Skipped {
		list = append(list, s.Backend.Name+":"+string(s.Why))
	}
	return strings.Join(list, " ")
}

func TestCleanHint(t *testing.T) {
	for name, tc := range map[string]struct{ raw, want string }{
		"nothing":                        {"", ""},
		"space":                          {" \t ", ""},
		"a name in space":                {"  tower\t", "tower"},
		"64 characters stay":             {strings.Repeat("x", 64), strings.Repeat("x", 64)},
		"the 65th goes":                  {strings.Repeat("x", 65), strings.Repeat("x", 64)},
		"characters, not bytes, are cut": {strings.Repeat("ü", 70), strings.Repeat("ü", 64)},
		"64 wide characters stay":        {strings.Repeat("ü", 64), strings.Repeat("ü", 64)},
		"bytes that are no text":         {strings.Repeat("\xff", 70), strings.Repeat("\xff", 64)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CleanHint(tc.raw); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A pin other than Only can never make a request fail: it only reorders.
func TestPinsAloneNeverFilter(t *testing.T) {
	for _, mode := range []table.PinMode{table.PinPrefer, table.PinAvoid} {
		for _, backend := range []string{"a", "b", "c", "z"} {
			p := Make(Input{Route: chainOf(pins(table.Pin{Backend: backend, Mode: mode})), Now: now})
			if len(p.Steps) != 3 || len(p.Skipped) != 0 {
				t.Errorf("%s %s: %q, skipped %q", mode, backend, steps(p), skipped(p))
			}
		}
	}
}

func BenchmarkMake(b *testing.B) {
	route := chainOf(pins(table.Pin{Backend: "b", Mode: table.PinPrefer}))
	in := Input{Route: route, Hint: "c", Now: now, PromptTokens: 100, View: open{"a": time.Minute}.view}
	b.ReportAllocs()
	for b.Loop() {
		Make(in)
	}
}

func BenchmarkMakePlain(b *testing.B) {
	in := Input{Route: chainOf(), Now: now}
	b.ReportAllocs()
	for b.Loop() {
		Make(in)
	}
}
