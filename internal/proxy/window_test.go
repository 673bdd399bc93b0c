package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/admission"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/proxy"
)

// A backend that is not asked because it is busy is as busy as one that says so: no fallback's window is a reason to shorten a prompt.
func TestAWindowTooSmallBehindABackendThatIsLeftAlone(t *testing.T) {
	small := status(400, "", `{"error":{"message":"small","code":"context_length_exceeded"}}`)
	refused := breaker.Result{Kind: breaker.Refused, RetryAfter: 30 * time.Second}
	cases := map[string]struct {
		knows breaker.Result // of a
		full  bool           // a, and nobody may wait for it
		hint  string
		open  string // of b and c, which is open too
		want  told
		says  string
	}{
		"it is busy":                   {knows: refused, want: told{503, "backend_saturated", "30", ""}, says: "backend a is busy"},
		"it has failed":                {knows: breaker.Result{Kind: breaker.Misconfigured}, want: told{503, "upstream_error", "60", ""}, says: "backend a has failed"},
		"it is full":                   {full: true, want: told{503, "backend_saturated", "1", ""}, says: "backend a is busy"},
		"it serves another endpoint":   {knows: breaker.Result{Kind: breaker.EndpointMissing}, want: told{400, "context_length_exceeded", "", "false"}, says: "small"},
		"the caller asks for another":  {knows: refused, hint: "b", want: told{400, "context_length_exceeded", "", "false"}, says: "small"},
		"another behind it is busy":    {open: "b", want: told{400, "context_length_exceeded", "", "false"}, says: "small"},
		"it and another behind it are": {knows: refused, open: "b", want: told{503, "backend_saturated", "30", ""}, says: `"attempts":[{"backend":"c","class":"too_long"}]`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := newRoute(says(t, small), says(t, small), says(t, small))
			if tc.full {
				route.Chain[0].MaxInFlight, route.Queue.Length = 1, 0
			}
			var slots *admission.Admission
			r := newRig(t, route, func(c *proxy.Config) { slots = c.Admission })
			knows := func(i int, result breaker.Result) {
				p, _ := r.breakers.Admit(route.Chain[i].ID, chatPath, breaker.Normal)
				p.Done(result)
			}
			knows(0, tc.knows)
			if tc.open != "" {
				knows(1, refused)
			}
			if tc.full {
				release, err := slots.Acquire(t.Context(), &route.Chain[0], admission.Wait{})
				if err != nil {
					t.Fatal(err)
				}
				defer release()
			}
			got := r.post(unary, "X-Prefer-Backend", tc.hint)
			if diff := cmp.Diff(tc.want, toldBy(t, got)); diff != "" || !strings.Contains(got.body, tc.says) {
				t.Errorf("error (-want +got):\n%s%s", diff, got.body)
			}
		})
	}
}
