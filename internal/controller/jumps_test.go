package controller

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestJumpsOfTheWallClockAreNoticed(t *testing.T) {
	cases := map[string]struct {
		step time.Duration // of the wall clock, while a timer of watchWallEvery runs off
		want int
	}{
		"time goes on":                  {watchWallEvery, 0},
		"a busy machine is a bit late":  {watchWallEvery + wallSlack, 0},
		"the machine slept":             {8 * time.Hour, 1},
		"somebody set the clock onward": {watchWallEvery + 3*time.Second, 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, jumped := clocktesting.NewFakeClock(time.Now()), 0
				j := &jumps{clock: clock, jumped: func() { jumped++ }}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = j.Start(ctx) }()
				synctest.Wait()
				clock.Step(tc.step)
				synctest.Wait()
				clock.Step(watchWallEvery)
				cancel()
				synctest.Wait()
				if jumped != tc.want {
					t.Errorf("%d jumps noticed, want %d", jumped, tc.want)
				}
			})
		})
	}
}

func TestAJumpHasEverythingLookedAtAgain(t *testing.T) {
	s := &system{world: newWorld()}
	s.world.setRoute(routeKey, routeNaming("tower", "tower"))
	s.world.setPin(routeKey, &storedPin{})
	raised(s.world.dirty)
	routes, pins := attached(&s.toRoutes), attached(&s.toPins)
	s.lookAgain()
	if len(*routes) != 1 || len(*pins) != 1 || !raised(s.world.dirty) {
		t.Errorf("%d routes and %d pins are looked at again, want one of each and a compile", len(*routes), len(*pins))
	}
}

// attached returns what a feed brings from now on.
func attached(f *feed) *[]reconcile.Request {
	var q collected
	f.attach(&q)
	return (*[]reconcile.Request)(&q)
}

type collected []reconcile.Request

func (c *collected) Add(r reconcile.Request) { *c = append(*c, r) }
