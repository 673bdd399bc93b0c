package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deployments answers each Get with the next of some UIDs or errors, the last one again and again.
type deployments struct {
	client.Reader
	answers []any
	asked   int
}

func (d *deployments) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	answer := d.answers[min(d.asked, len(d.answers)-1)]
	d.asked++
	if err, ok := answer.(error); ok {
		return err
	}
	into.SetUID(types.UID(answer.(string)))
	return nil
}

func TestOwner(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, "spillway-manager")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "spillway-manager", nil)
	away := errors.New("connection refused")
	const minute = time.Minute
	for name, tc := range map[string]struct {
		answers   []any
		after     []time.Duration // waits between questions
		want      []string        // UID, "nobody" or "error"
		wantAsked int
	}{
		"is asked for once a minute":                          {[]any{"a"}, []time.Duration{0, 59 * time.Second, 2 * time.Second}, []string{"a", "a", "a"}, 2},
		"may be another one later":                            {[]any{"a", "b"}, []time.Duration{0, minute}, []string{"a", "b"}, 2},
		"that was never there is nobody":                      {[]any{notFound}, []time.Duration{0, time.Second}, []string{"nobody", "nobody"}, 1},
		"that may not be read is nobody":                      {[]any{forbidden}, []time.Duration{0}, []string{"nobody"}, 1},
		"that goes holds up writes for as long as a Pod has":  {[]any{"a", notFound}, []time.Duration{0, minute, 59 * time.Second}, []string{"a", "error", "error"}, 2},
		"that is gone for good is nobody":                     {[]any{"a", notFound}, []time.Duration{0, minute, minute}, []string{"a", "error", "nobody"}, 3},
		"is not known while the API server is away":           {[]any{away, "a"}, []time.Duration{0, 0}, []string{"error", "a"}, 2},
		"that was known is not used while nobody can confirm": {[]any{"a", away, "a"}, []time.Duration{0, minute, 0}, []string{"a", "error", "a"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Unix(0, 0))
			reader := &deployments{answers: tc.answers}
			o := newOwner(Options{Namespace: "own", OwnerDeployment: "spillway-manager", Clock: clock}, reader)
			for i, wait := range tc.after {
				clock.Step(wait)
				got := "nobody"
				owners, err := o.references(t.Context())
				switch {
				case err != nil:
					got = "error"
				case len(owners) > 0:
					got = string(owners[0].UID)
				}
				if got != tc.want[i] {
					t.Errorf("question %d: %s, want %s", i, got, tc.want[i])
				}
			}
			if reader.asked != tc.wantAsked {
				t.Errorf("the API server was asked %d times, want %d", reader.asked, tc.wantAsked)
			}
		})
	}
}

func TestOwnerWithoutANameAsksNobody(t *testing.T) {
	o := newOwner(Options{Namespace: "own"}, nil)
	if owners, err := o.references(t.Context()); owners != nil || err != nil {
		t.Errorf("references = %v, %v", owners, err)
	}
}

func TestTheReferenceNamesTheDeployment(t *testing.T) {
	o := newOwner(Options{Namespace: "own", OwnerDeployment: "spillway-manager", Clock: clocktesting.NewFakeClock(time.Unix(0, 0))}, &deployments{answers: []any{"a"}})
	got, err := o.references(t.Context())
	want := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "spillway-manager", UID: "a"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || o.key.Namespace != "own" {
		t.Errorf("references of %s (-want +got):\n%s%v", o.key, diff, err)
	}
}

func TestOwns(t *testing.T) {
	a, b := metav1.OwnerReference{UID: "a"}, metav1.OwnerReference{UID: "b"}
	for name, tc := range map[string]struct {
		want, have []metav1.OwnerReference
		owns       bool
	}{
		"nobody takes nothing away": {nil, []metav1.OwnerReference{a}, true},
		"the same":                  {[]metav1.OwnerReference{a}, []metav1.OwnerReference{a}, true},
		"another one":               {[]metav1.OwnerReference{a}, []metav1.OwnerReference{b}, false},
		"no owner yet":              {[]metav1.OwnerReference{a}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := owns(tc.want, tc.have); got != tc.owns {
				t.Errorf("owns = %v, want %v", got, tc.owns)
			}
		})
	}
}
