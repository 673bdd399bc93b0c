package compiler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestSaturationInForce(t *testing.T) {
	span := func(d v1alpha1.Duration) *v1alpha1.Duration { return &d }
	whole := func(slow, nonStreaming time.Duration) table.Saturation {
		return table.Saturation{
			Threshold: 2, Cooldown: 15 * time.Minute, ColdStartGrace: 2 * time.Minute, SlowAfter: slow, NonStreamingSlowAfter: nonStreaming,
		}
	}
	const derived = 10 * time.Minute
	cases := map[string]struct {
		backends int
		route    v1alpha1.SaturationPolicy
		backend  v1alpha1.SaturationOverride
		want     table.Saturation
	}{
		"one backend has nowhere to go": {backends: 1, want: whole(0, 0)},
		"two have":                      {backends: 2, want: whole(30*time.Second, derived)},
		"the route's own":               {backends: 2, route: v1alpha1.SaturationPolicy{SlowAfter: "20s"}, want: whole(20*time.Second, derived)},
		"the route turns it off, and so the other, too":   {backends: 2, route: v1alpha1.SaturationPolicy{SlowAfter: "0s"}, want: whole(0, 0)},
		"the route's own is larger than what is derived":  {backends: 2, route: v1alpha1.SaturationPolicy{SlowAfter: "20m"}, want: whole(20*time.Minute, 20*time.Minute)},
		"the route's own for answers in one piece":        {backends: 2, route: v1alpha1.SaturationPolicy{NonStreamingSlowAfter: "1m"}, want: whole(30*time.Second, time.Minute)},
		"the route turns that off alone":                  {backends: 2, route: v1alpha1.SaturationPolicy{NonStreamingSlowAfter: "0s"}, want: whole(30*time.Second, 0)},
		"the backend's own":                               {backends: 2, backend: v1alpha1.SaturationOverride{SlowAfter: span("5s")}, want: whole(5*time.Second, derived)},
		"the backend's own for answers in one piece":      {backends: 2, backend: v1alpha1.SaturationOverride{NonStreamingSlowAfter: span("3m")}, want: whole(30*time.Second, 3*time.Minute)},
		"an empty text of a backend is as good as absent": {backends: 2, route: v1alpha1.SaturationPolicy{SlowAfter: "20s", Cooldown: "15m"}, backend: v1alpha1.SaturationOverride{SlowAfter: span(""), Cooldown: span("")}, want: whole(20*time.Second, derived)},
		"the backend's word beats the route's":            {backends: 1, route: v1alpha1.SaturationPolicy{SlowAfter: "20s"}, backend: v1alpha1.SaturationOverride{SlowAfter: span("0s")}, want: whole(0, 0)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRoute("r", func(r *v1alpha1.LLMRoute) {
				r.Spec.Saturation = tc.route
				r.Spec.Chain[0].Auth = nil
				r.Spec.Chain[0].Saturation = &tc.backend
				if tc.backends > 1 {
					r.Spec.Chain = append(r.Spec.Chain, v1alpha1.Backend{Name: "hosted", URL: "http://hosted.lan"})
				}
			})
			result := Compile(snapshotOf(r), goldenNow)
			if problems := result.Routes[key("r")].Problems; len(problems) > 0 {
				t.Fatalf("problems: %v", problems)
			}
			if diff := cmp.Diff(tc.want, result.Table().ByKey("a/r").Chain[0].Saturation); diff != "" {
				t.Errorf("saturation (-want +got):\n%s", diff)
			}
		})
	}
}
