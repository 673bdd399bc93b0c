package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// leases keeps the lease that was written last.
type leases struct {
	coordinationv1client.LeaseInterface
	last *coordinationv1.Lease
}

func (l *leases) Leases(string) coordinationv1client.LeaseInterface { return l }

func (l *leases) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	l.last = lease
	return lease, nil
}

func (l *leases) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	l.last = lease
	return lease, nil
}

func TestALeaseGoesWithTheDeployment(t *testing.T) {
	away := errors.New("no answer")
	others := []metav1.OwnerReference{{UID: "other"}}
	cases := map[string]struct {
		answer  any // UID of the Deployment, or an error
		renew   []metav1.OwnerReference
		create  bool
		want    []types.UID // owners
		wantErr bool
	}{
		"a new one is owned":                      {answer: "a", create: true, want: []types.UID{"a"}},
		"a new one is not made without its owner": {answer: away, create: true, wantErr: true},
		"one of nobody gets its owner":            {answer: "a", want: []types.UID{"a"}},
		"one of another Deployment, too":          {answer: "a", renew: others, want: []types.UID{"a"}},
		"one is renewed while nobody can tell":    {answer: away, renew: others, want: []types.UID{"other"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			stored := &leases{}
			owner := newOwner(Options{OwnerDeployment: "spillway-manager", Clock: clocktesting.NewFakeClock(metav1.Now().Time)},
				&deployments{answers: []any{tc.answer}})
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.renew}}
			of := ownedLeases{stored, owner}.Leases(own)
			var err error
			if tc.create {
				_, err = of.Create(t.Context(), lease, metav1.CreateOptions{})
			} else {
				_, err = of.Update(t.Context(), lease, metav1.UpdateOptions{})
			}
			if (err != nil) != tc.wantErr || (stored.last == nil) != tc.wantErr {
				t.Fatalf("error %v, written %+v", err, stored.last)
			}
			var got []types.UID
			if stored.last != nil {
				for _, o := range stored.last.OwnerReferences {
					got = append(got, o.UID)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheLockIsOnOurLeaseUnderANameOfItsOwn(t *testing.T) {
	lockOf := func() *resourcelock.LeaseLock {
		lock, err := newLock(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Namespace: own, OwnerDeployment: "spillway-manager"})
		must(t, err)
		return lock.(*resourcelock.LeaseLock)
	}
	lock := lockOf()
	if lock.LeaseMeta.Namespace != own || lock.LeaseMeta.Name != LeaseName || len(lock.Labels) != 2 {
		t.Errorf("the lock is on %+v", lock.LeaseMeta)
	}
	if lock.Identity() == "" || lock.Identity() == lockOf().Identity() {
		t.Errorf("two locks of one host are both called %q", lock.Identity())
	}
}
