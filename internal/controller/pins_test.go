package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// deletions notes what is deleted, and as what it was seen.
type deletions struct {
	client.Client
	seen []string
}

func (d *deletions) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	d.seen = append(d.seen, object.GetName()+" "+string(*o.Preconditions.UID)+" "+*o.Preconditions.ResourceVersion)
	return nil
}

func TestAPinIsDeletedAfterItsRetention(t *testing.T) {
	const retention = 24 * time.Hour
	key := types.NamespacedName{Namespace: "a", Name: "night"}
	ended := func(at time.Time) []metav1.Condition {
		return []metav1.Condition{{Type: string(v1alpha1.ConditionActive), Reason: string(v1alpha1.ReasonExpired), LastTransitionTime: metav1.NewTime(at)}}
	}
	cases := map[string]struct {
		change     func(*storedPin)
		now        time.Time
		wantDelete bool
		wantAgain  time.Duration // until it is looked at next, less a millisecond
	}{
		"it is on":                           {func(*storedPin) {}, evening.Add(-time.Minute), false, time.Minute},
		"it has just ended":                  {func(*storedPin) {}, evening, false, retention},
		"its retention is over":              {func(*storedPin) {}, evening.Add(retention), true, 0},
		"nobody has been told that it ended": {func(p *storedPin) { p.Status.Phase = v1alpha1.PinActive }, evening.Add(retention), false, 0},
		"it was made when it had ended":      {func(p *storedPin) { p.CreationTimestamp = metav1.NewTime(evening.Add(time.Hour)) }, evening.Add(retention), false, time.Hour},
		"it was edited to have ended":        {func(p *storedPin) { p.Status.Conditions = ended(evening.Add(2 * time.Hour)) }, evening.Add(retention), false, 2 * time.Hour},
		"it was not active long after, for another reason": {func(p *storedPin) {
			p.Status.Conditions = ended(evening.Add(2 * time.Hour))
			p.Status.Conditions[0].Reason = string(v1alpha1.ReasonSuperseded)
		}, evening.Add(retention), true, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pin := &storedPin{}
			pin.Namespace, pin.Name, pin.UID, pin.ResourceVersion, pin.CreationTimestamp = key.Namespace, key.Name, "u", "7", metav1.NewTime(evening.Add(-time.Hour))
			pin.Status.Phase = v1alpha1.PinExpired
			tc.change(pin)
			c := pinsThatEnd(map[string]time.Time{"night": evening})
			d := &deletions{}
			p := &pins{writer: &statusWriter{client: d}, retention: retention}
			result, err := p.end(t.Context(), pin, c, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			if deleted := len(d.seen) == 1 && d.seen[0] == "night u 7"; deleted != tc.wantDelete {
				t.Errorf("deleted %v, want %v", d.seen, tc.wantDelete)
			}
			if want := tc.wantAgain + time.Millisecond; !tc.wantDelete && result.RequeueAfter != want {
				t.Errorf("looked at again in %s, want %s", result.RequeueAfter, want)
			}
		})
	}
}

// pinsThatEnd compiles pins of the namespace a that have been on for an hour.
func pinsThatEnd(ends map[string]time.Time) *compilation {
	var s compiler.Snapshot
	for name, end := range ends {
		pin := &v1alpha1.BackendPin{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		pin.Spec = v1alpha1.BackendPinSpec{Routes: v1alpha1.PinRoutes{Names: []string{"r"}}, Backend: "tower", Mode: v1alpha1.PinPrefer,
			StartsAt: &metav1.Time{Time: evening.Add(-time.Hour)}, ExpiresAt: &metav1.Time{Time: end}}
		s.Pins = append(s.Pins, pin)
	}
	return newCompilation(compiler.Compile(s, evening), nil)
}

// A pin may come into force, or lose it, when another one of the namespace starts or ends.
func TestAPinIsLookedAtWhenAnotherOneEnds(t *testing.T) {
	c := pinsThatEnd(map[string]time.Time{"night": evening.Add(time.Hour), "short": evening.Add(time.Minute)})
	pin := &storedPin{}
	pin.Namespace, pin.Name = "a", "night"
	result, err := (&pins{}).end(t.Context(), pin, c, evening)
	if want := time.Minute + time.Millisecond; err != nil || result.RequeueAfter != want {
		t.Errorf("looked at again in %s (error %v), want %s", result.RequeueAfter, err, want)
	}
}

func TestStatusWritesOfOneObjectKeepApart(t *testing.T) {
	p, one, two := newPace(), types.NamespacedName{Name: "one"}, types.NamespacedName{Name: "two"}
	p.wrote(one, evening)
	for name, got := range map[string]time.Duration{
		"at once": p.wait(one, evening) - statusEvery, "later": p.wait(one, evening.Add(statusEvery)), "another": p.wait(two, evening),
	} {
		if got != 0 {
			t.Errorf("%s: off by %s", name, got)
		}
	}
	p.forget(one)
	if len(p.last) != 0 {
		t.Error("an object that is gone is remembered")
	}
}
