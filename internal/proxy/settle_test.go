package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/breaker"
)

// B11: whatever form a backend's wish takes, the request goes on to the next one, and a caller that is told to wait is told
// so in whole seconds, for no longer than a day. Unreadable is absent: then the breaker's cooldown of a minute counts.
func TestWishesToBeLeftAlone(t *testing.T) {
	cases := map[string]struct{ header, want string }{
		"seconds":                  {"Retry-After: 120\r\n", "120"},
		"a fraction":               {"Retry-After: 1.5\r\n", "2"},
		"a date in decades":        {"Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n", "86400"},
		"a date in the past":       {"Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", "1"},
		"a negative number":        {"Retry-After: -100\r\n", "1"},
		"nan":                      {"Retry-After: nan\r\n", "60"},
		"a word":                   {"Retry-After: soon\r\n", "60"},
		"nothing behind the colon": {"Retry-After:\r\n", "60"},
		"two headers":              {"Retry-After: 3\r\nRetry-After: 10\r\n", "10"},
		"milliseconds":             {"retry-after-ms: 1500\r\n", "2"},
		"the later of two limits":  {"x-ratelimit-reset-requests: 17ms\r\nx-ratelimit-reset-tokens: 6m0s\r\n", "360"},
		"a long duration":          {"x-ratelimit-reset-requests: 23h47m36.648s\r\n", "85657"},
		"a time in ISO's form":     {"x-ratelimit-reset-tokens: 2099-01-01T00:00:00Z\r\n", "86400"},
		"nothing":                  {"", "60"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			answer := status(429, tc.header, `{}`)
			r := newRig(t, newRoute(says(t, answer), says(t, status(200, "", whole))))
			if got := r.post(unary); got.status != 200 || got.header.Get("X-Spillway-Backend") != "b" {
				t.Errorf("%d %s", got.status, got.body)
			}
			if got := learnedBy(r.breakers, "a"); got.Reason != breaker.ReasonRefused {
				t.Errorf("breaker %+v", got)
			}
			alone := newRig(t, newRoute(says(t, answer)))
			if diff := cmp.Diff(told{429, "backend_saturated", tc.want, ""}, toldBy(t, alone.post(unary))); diff != "" {
				t.Errorf("as the last one (-want +got):\n%s", diff)
			}
		})
	}
}

// What an error says that comes when the status line has gone: all that the header cannot say any more.
func TestErrorInAStreamSaysWhatTheHeaderCannot(t *testing.T) {
	route := newRoute(newUpstream(t, func(_ int, w *wire) {
		w.pause(50 * time.Millisecond) // past the commit
		w.send(status(429, "Retry-After: 7\r\n", `{}`))
	}))
	route.Heartbeat.CommitAfter = time.Millisecond
	got := newRig(t, route).post(streamed)
	_, event, _ := strings.Cut(events(got.body), "data: ")
	const want = `{"error":{"message":"the backend a has no capacity now","type":"overloaded_error","code":"backend_saturated","param":null,` +
		`"retry_after_ms":7000,"attempts":[{"backend":"a","class":"refused"}]}}` + "\n\n"
	if diff := cmp.Diff(want, event); diff != "" || got.header.Get("Retry-After") != "" {
		t.Errorf("event (-want +got):\n%s%v", diff, got.header)
	}
}

// A 404 is about what a backend stores where the request names something of that kind, and only there.
func TestResponseThatIsNotStoredIsTheCallers(t *testing.T) {
	missing := status(404, "", `{"error":{"message":"no such response","code":"previous_response_not_found"}}`)
	for rest, want := range map[string]struct {
		told
		asked int
	}{
		`,"previous_response_id":"resp_1"`: {told{404, "previous_response_not_found", "", "false"}, 0},
		`,"conversation":"conv_1"`:         {told{404, "previous_response_not_found", "", "false"}, 0},
		`,"prompt":{"id":"pmpt_1"}`:        {told{404, "previous_response_not_found", "", "false"}, 0},
		`,"previous_response_id":null`:     {told{502, "upstream_misconfigured", "", "false"}, 1},
		``:                                 {told{502, "upstream_misconfigured", "", "false"}, 1},
	} {
		b := says(t, missing)
		r := newRig(t, newRoute(says(t, missing), b))
		got := r.postTo("/v1/responses", `{"model":"ns/m","input":"x"`+rest+`}`)
		if diff := cmp.Diff(want.told, toldBy(t, got)); diff != "" || b.count() != want.asked {
			t.Errorf("with %q, another asked %d times (-want +got):\n%s", rest, b.count(), diff)
		}
	}
}
