package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/spillway-dev/spillway/internal/status"
)

// desk stands for the API server: it answers each status write with the next of its errors, and reads with what is stored.
type desk struct {
	client.Client
	scheme  *runtime.Scheme
	answers []error
	live    client.Object
	writes  []string // phase or state that was written
	told    []string
}

func (d *desk) Status() client.SubResourceWriter { return statusDesk{d: d} }
func (d *desk) Scheme() *runtime.Scheme          { return d.scheme }
func (d *desk) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	kinds, _, err := d.scheme.ObjectKinds(o)
	return kinds[0], err
}

// statusDesk is the desk for status.
type statusDesk struct {
	client.SubResourceWriter
	d *desk
}

func (s statusDesk) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	d := s.d
	var err error
	if len(d.answers) > 0 {
		err, d.answers = d.answers[0], d.answers[1:]
	}
	if err == nil {
		d.writes = append(d.writes, string(object.(*storedPin).Status.Phase))
	}
	return err
}

func (d *desk) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	*into.(*storedPin) = *d.live.DeepCopyObject().(*storedPin)
	return nil
}

func (d *desk) Eventf(_, _ runtime.Object, _, reason, action, _ string, _ ...any) {
	d.told = append(d.told, reason+" "+action)
}

// reconciler is the reconciler of the pins of two teams, an hour into the evening, with a desk.
func reconciler(t *testing.T) (*pins, *desk, *clocktesting.FakePassiveClock) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	clock, d := clocktesting.NewFakePassiveClock(evening.Add(time.Hour)), &desk{scheme: scheme}
	w := twoTeams()
	c := &compiling{world: w}
	s, _ := w.snapshot()
	c.latest.Store(c.build(s, evening))
	return &pins{
		world: w, compiling: c, inForce: (&publisher{}).inForce, skews: &skews{}, clock: clock, retention: time.Hour, pace: newPace(),
		writer: &statusWriter{client: d, live: d, recorder: d},
	}, d, clock
}

func TestReconcileWritesWhatDiffersOnceAndTellsIt(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "backendpins"}, "night", errors.New("it was modified"))
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "backendpins"}, "night")
	fourConflicts := []error{conflict, conflict, conflict, conflict}
	cases := map[string]struct {
		answers    []error
		change     func(*pins, *desk)
		wantWrites []string
		wantTold   []string
		wantAgain  time.Duration
		wantErr    bool
	}{
		"a new pin":                       {wantWrites: []string{"Active"}, wantTold: []string{"PinActivated Observe"}, wantAgain: 3*time.Hour + time.Millisecond},
		"a conflict is decided anew":      {answers: []error{conflict}, wantWrites: []string{"Active"}, wantTold: []string{"PinActivated Observe"}, wantAgain: 3*time.Hour + time.Millisecond},
		"conflict upon conflict":          {answers: fourConflicts, wantAgain: statusEvery},
		"the pin is gone":                 {answers: []error{gone}, wantAgain: 3*time.Hour + time.Millisecond},
		"the API server does not answer":  {answers: []error{errors.New("no answer")}, wantErr: true},
		"it was written a moment ago":     {change: func(p *pins, _ *desk) { p.pace.wrote(nightKey, evening.Add(time.Hour)) }, wantAgain: statusEvery},
		"another one has the name by now": {answers: []error{conflict}, change: func(_ *pins, d *desk) { d.live.SetUID("again") }, wantAgain: 3*time.Hour + time.Millisecond},
		"the compile of an edit is due": {change: func(p *pins, _ *desk) {
			setPin(p.world, "night", func(s *storedPin) { s.Generation = 2 })
		}},
		"nothing is compiled yet": {change: func(p *pins, _ *desk) { p.compiling.latest.Store(nil) }},
		"it is deleted":           {change: func(p *pins, _ *desk) { p.world.setPin(nightKey, nil) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, d, _ := reconciler(t)
			d.answers, d.live = tc.answers, p.world.pin(nightKey).DeepCopyObject().(client.Object)
			if tc.change != nil {
				tc.change(p, d)
			}
			result, err := p.Reconcile(t.Context(), reconcile.Request{NamespacedName: nightKey})
			if (err != nil) != tc.wantErr || result.RequeueAfter != tc.wantAgain {
				t.Errorf("again in %s, error %v; want %s, error %v", result.RequeueAfter, err, tc.wantAgain, tc.wantErr)
			}
			if diff := cmp.Diff([][]string{tc.wantWrites, tc.wantTold}, [][]string{d.writes, d.told}); diff != "" {
				t.Errorf("writes and Events (-want +got):\n%s", diff)
			}
		})
	}
}

var nightKey = types.NamespacedName{Namespace: "a", Name: "night"}

// What is right already is not written, and the second of two writes waits.
func TestReconcileLeavesAloneWhatIsRight(t *testing.T) {
	p, d, clock := reconciler(t)
	pin := p.world.pin(nightKey)
	request := reconcile.Request{NamespacedName: nightKey}
	compiled := p.compiling.latest.Load()
	after, _ := p.decide(compiled, pin, clock.Now())
	p.world.setPin(nightKey, after.(*storedPin))
	if _, err := p.Reconcile(t.Context(), request); err != nil || len(d.writes) != 0 {
		t.Errorf("written %v (error %v) although it is right", d.writes, err)
	}
	p.world.setPin(nightKey, pin)
	for i, want := range []int{1, 1, 2} { // at once, too soon, a second later
		if i == 2 {
			clock.SetTime(clock.Now().Add(statusEvery))
		}
		if _, err := p.Reconcile(t.Context(), request); err != nil || len(d.writes) != want {
			t.Errorf("%d writes after call %d (error %v), want %d", len(d.writes), i+1, err, want)
		}
	}
	p.world.setPin(nightKey, nil)
	if _, err := p.Reconcile(t.Context(), request); err != nil || len(p.pace.last) != 0 {
		t.Errorf("a pin that is gone is remembered: %v (error %v)", p.pace.last, err)
	}
}

func TestEventsOfSeveralBackendsAreSeveralActions(t *testing.T) {
	d := &desk{}
	w := &statusWriter{recorder: d}
	w.tell(&storedRoute{}, []status.Event{{Reason: "BackendSaturated", Backend: "tower"}, {Reason: "BackendSaturated", Backend: "hosted"}, {Reason: "AllBackendsOpen"}})
	if want := "[BackendSaturated Observe/tower BackendSaturated Observe/hosted AllBackendsOpen Observe]"; fmt.Sprint(d.told) != want {
		t.Errorf("told %v, want %s", d.told, want)
	}
}
