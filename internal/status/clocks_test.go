package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

func TestInstantsAreBroughtToTheReadersClock(t *testing.T) {
	// skewed is a report that came now from a proxy whose clock is ahead, and says what "opened a minute ago" is there.
	skewed := func(pod string, ahead time.Duration) Report {
		r := proxyReport(pod, open("b", v1alpha1.BackendSaturated, 1))
		r.Seen = now
		r.Status.RenewTime = metav1.NewMicroTime(now.Add(ahead))
		since := metav1.NewMicroTime(now.Add(ahead - time.Minute))
		r.Status.Breakers[0].Since = &since
		return r
	}
	unseen := skewed("p1", 5*time.Minute)
	unseen.Seen = time.Time{}
	undated := skewed("p1", 0)
	undated.Status.RenewTime = metav1.MicroTime{}
	type instants struct{ Since, RetryAt time.Duration } // from now; RetryAt 0: none
	truth := instants{-time.Minute, 15 * time.Minute}
	cases := map[string]struct {
		reports []Report
		want    instants
	}{
		"a clock that is right":                                  {[]Report{skewed("p1", 0)}, truth},
		"a clock that is five minutes ahead":                     {[]Report{skewed("p1", 5*time.Minute)}, truth},
		"a clock that is five minutes behind":                    {[]Report{skewed("p1", -5*time.Minute)}, truth},
		"all clocks are wrong, each in its own way":              {[]Report{skewed("p1", 5*time.Minute), skewed("p2", -5*time.Minute)}, truth},
		"a report that was listed, and written a while ago":      {[]Report{skewed("p1", -14*time.Second)}, instants{-time.Minute - 14*time.Second, 15*time.Minute - 14*time.Second}},
		"of two that say the same, who agrees with us is heard":  {[]Report{skewed("p1", 5*time.Minute), skewed("p2", -time.Second)}, instants{-time.Minute - time.Second, 15*time.Minute - time.Second}},
		"a report of which nobody says when it came is believed": {[]Report{unseen}, instants{4 * time.Minute, 20 * time.Minute}},
		"a report that does not say when it was written":         {[]Report{undated}, instants{-time.Minute, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := NewFleet(tc.reports).Evidence("b")
			got := instants{Since: e.Since.Sub(now)}
			if !e.RetryAt.IsZero() {
				got.RetryAt = e.RetryAt.Sub(now)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("instants from now (-want +got):\n%s", diff)
			}
		})
	}
}
