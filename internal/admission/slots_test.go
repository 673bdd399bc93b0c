package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

func bounded(id string, maxInFlight int) *table.Backend {
	return &table.Backend{ID: table.BackendID(id), Name: id, MaxInFlight: maxInFlight}
}

func routesWith(backends ...*table.Backend) *table.Table {
	r := &table.Route{Namespace: "ns", Name: "r", Model: "ns/r"}
	for _, b := range backends {
		r.Chain = append(r.Chain, *b)
	}
	return table.New([]*table.Route{r})
}

// caller waits on a goroutine of its own.
type caller struct {
	release   func()
	err       error
	positions []int
	done      chan struct{}
}

func (a *Admission) call(ctx context.Context, b *table.Backend, w Wait) *caller {
	c := &caller{done: make(chan struct{})}
	w.Position = func(p int) { c.positions = append(c.positions, p) }
	go func() {
		defer close(c.done)
		c.release, c.err = a.Acquire(ctx, b, w)
	}()
	synctest.Wait()
	return c
}

func (c *caller) ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func mustAcquire(t *testing.T, a *Admission, b *table.Backend) func() {
	t.Helper()
	release, err := a.Acquire(t.Context(), b, Wait{})
	if err != nil {
		t.Fatalf("Acquire: %v", err)
	}
	return release
}

func TestWaitEnds(t *testing.T) {
	type hands struct {
		release, open, leave func()
	}
	cases := map[string]struct {
		wait    Wait
		do      func(h hands)
		wantErr error
	}{
		"with a slot when one is released": {Wait{Length: 1, MaxWait: time.Minute}, func(h hands) { h.release() }, nil},
		"at the longest wait":              {Wait{Length: 1, MaxWait: time.Second}, func(hands) { pass(time.Second) }, ErrMaxWait},
		"when the breaker opens":           {Wait{Length: 1}, func(h hands) { h.open() }, ErrOpened},
		"when the caller leaves":           {Wait{Length: 1}, func(h hands) { h.leave() }, context.Canceled},
		"at once when the queue is full":   {Wait{Length: 0}, func(hands) {}, ErrQueueFull},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := New(Options{}), bounded("b", 1)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				opened := make(chan struct{})
				tc.wait.Opened = opened
				h := hands{release: mustAcquire(t, a, b), open: func() { close(opened) }, leave: leave}
				c := a.call(ctx, b, tc.wait)
				tc.do(h)
				<-c.done
				if !errors.Is(c.err, tc.wantErr) {
					t.Errorf("err = %v, want %v", c.err, tc.wantErr)
				}
				if got := a.Waiting("b"); got != 0 {
					t.Errorf("%d callers are still in the queue", got)
				}
			})
		})
	}
}

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestWaitGoesOnWithoutMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), bounded("b", 1)
		release := mustAcquire(t, a, b)
		c := a.call(t.Context(), b, Wait{Length: 1})
		pass(24 * time.Hour)
		if c.ended() {
			t.Fatalf("the wait ended: %v", c.err)
		}
		release()
		if !c.ended() || c.err != nil {
			t.Errorf("no slot after the release: %v", c.err)
		}
	})
}

// A caller that has waited long enough keeps its place until there is another one for it.
func TestPlaceIsKeptUntilThereIsRoomElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, other := New(Options{}), bounded("b", 1), bounded("other", 1)
		release, releaseOther := mustAcquire(t, a, b), mustAcquire(t, a, other)
		defer release()
		c := a.call(t.Context(), b, Wait{Length: 1, MaxWait: time.Second, Leave: func() bool { return a.Room(other, 0) }})
		pass(time.Hour)
		if c.ended() || a.Room(b, 1) || !a.Room(other, 1) {
			t.Fatalf("it gave up its place for none: %v", c.err)
		}
		releaseOther()
		pass(askAgain)
		if !c.ended() || !errors.Is(c.err, ErrMaxWait) || !a.Room(b, 1) || !a.Room(bounded("unheard of", 1), 0) {
			t.Errorf("it waits on although there is room: %v", c.err)
		}
	})
}

func TestQueueIsFirstInFirstOutAndTellsPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), bounded("b", 1)
		release := mustAcquire(t, a, b)
		leaving, leave := context.WithCancel(t.Context())
		first := a.call(t.Context(), b, Wait{Length: 3})
		second := a.call(leaving, b, Wait{Length: 3})
		third := a.call(t.Context(), b, Wait{Length: 3})
		if _, err := a.Acquire(t.Context(), b, Wait{Length: 3}); !errors.Is(err, ErrQueueFull) {
			t.Errorf("a fourth was let in: %v", err)
		}

		leave()
		synctest.Wait()
		release()
		if !first.ended() || third.ended() {
			t.Fatal("the slot did not go to the first of the queue alone")
		}
		first.release()
		first.release() // does nothing
		if !third.ended() {
			t.Fatal("the slot did not go on to the next")
		}
		if got := a.call(t.Context(), b, Wait{}); !errors.Is(got.err, ErrQueueFull) {
			t.Error("a second release made a slot out of nothing")
		}
		got := [][]int{first.positions, second.positions, third.positions}
		if diff := cmp.Diff([][]int{{1}, {2}, {3, 2, 1}}, got); diff != "" {
			t.Errorf("positions (-want +got):\n%s", diff)
		}
		third.release()
	})
}

func TestShareOfTheFleet(t *testing.T) {
	cases := map[string]struct {
		maxInFlight, live, want int
	}{
		"alone, all of it":                        {4, 1, 4},
		"two proxies, half each":                  {4, 2, 2},
		"an odd one is left free, never exceeded": {5, 2, 2},
		"more proxies than slots, one each":       {2, 5, 1},
		"nonsense counts as alone":                {3, 0, 3},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := New(Options{}), bounded("b", tc.maxInFlight)
			a.SetLive(tc.live)
			got := 0
			for {
				if _, err := a.Acquire(t.Context(), b, Wait{}); err != nil {
					break
				}
				got++
			}
			if got != tc.want {
				t.Errorf("%d in flight, want %d", got, tc.want)
			}
		})
	}
}

func TestSlotsFollowTheTableAndTheFleet(t *testing.T) {
	cases := map[string]struct {
		change    func(a *Admission)
		wantEnded int // of two that wait behind one in flight
	}{
		"more slots are given out at once":             {func(a *Admission) { a.Apply(routesWith(bounded("b", 2))) }, 1},
		"a backend that became unlimited lets all go":  {func(a *Admission) { a.Apply(routesWith(bounded("b", 0))) }, 2},
		"an unrelated edit changes nothing":            {func(a *Admission) { a.Apply(routesWith(bounded("b", 1), bounded("c", 9))) }, 0},
		"a dropped backend keeps its bound to the end": {func(a *Admission) { a.Apply(routesWith()) }, 0},
		"the smallest bound of two routes holds": {func(a *Admission) {
			a.Apply(routesWith(bounded("b", 3), bounded("b", 1)))
		}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := New(Options{}), bounded("b", 1)
				a.Apply(routesWith(b))
				release := mustAcquire(t, a, b)
				waiting := []*caller{a.call(t.Context(), b, Wait{Length: 2}), a.call(t.Context(), b, Wait{Length: 2})}
				tc.change(a)
				ended := 0
				for _, c := range waiting {
					if c.ended() {
						ended++
					}
				}
				if ended != tc.wantEnded {
					t.Errorf("%d got a slot, want %d", ended, tc.wantEnded)
				}
				release()
				for _, c := range waiting {
					<-c.done
					c.release()
				}
				if len(a.slots) != 0 {
					t.Errorf("slots that nobody uses are kept: %d", len(a.slots))
				}
			})
		})
	}
}

func TestAShrunkenFleetGivesOutSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), bounded("b", 2)
		a.SetLive(2)
		release := mustAcquire(t, a, b)
		c, next := a.call(t.Context(), b, Wait{Length: 2}), a.call(t.Context(), b, Wait{Length: 2})
		a.SetLive(1)
		if !c.ended() || c.err != nil {
			t.Errorf("the other proxy's slot was not taken over: %v", c.err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]int{2, 1}, next.positions); diff != "" || a.Waiting("b") != 1 {
			t.Errorf("%d wait; the next one was told (-want +got):\n%s", a.Waiting("b"), diff)
		}
		release()
		<-next.done
	})
}

// The smallest bound among the routes is the backend's, whichever comes first and whichever a caller came by; 0 is none.
func TestTheSmallestBoundHolds(t *testing.T) {
	cases := map[string]struct{ one, other, want int }{
		"the smaller first": {1, 3, 1}, "the smaller last": {3, 1, 1}, "one without a bound first": {0, 2, 2},
		"one without a bound last": {2, 0, 2}, "equal ones": {2, 2, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := New(Options{})
			a.Apply(routesWith(bounded("b", tc.one), bounded("b", tc.other)))
			got := 0
			for range 9 {
				if _, err := a.Acquire(t.Context(), bounded("b", 9), Wait{}); err == nil {
					got++
				}
			}
			if got != tc.want {
				t.Errorf("%d in flight, want %d", got, tc.want)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := New(Options{}), bounded("b", 2)
		room := func(want bool, length int, when string) {
			t.Helper()
			if got := a.Room(b, length); got != want {
				t.Errorf("%s, a queue of %d: %v, want %v", when, length, got, want)
			}
		}
		room(true, 0, "unused")
		first := mustAcquire(t, a, b)
		room(true, 0, "one slot free")
		second := mustAcquire(t, a, b)
		room(false, 0, "no slot free")
		room(true, 1, "no slot free")
		c := a.call(t.Context(), b, Wait{Length: 1})
		room(false, 1, "one waits")
		room(true, 2, "one waits")
		first()
		<-c.done
		second()
		c.release()
	})
}

func TestWhoHasLeftGetsNoSlot(t *testing.T) {
	a, b := New(Options{}), bounded("b", 1)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := a.Acquire(ctx, b, Wait{Length: 1}); !errors.Is(err, context.Canceled) || len(a.slots) != 0 {
		t.Errorf("err %v, %d slots", err, len(a.slots))
	}
}

func TestUnlimitedBackendsAreNotCounted(t *testing.T) {
	a := New(Options{})
	release, err := a.Acquire(t.Context(), bounded("b", 0), Wait{})
	if err != nil || len(a.slots) != 0 {
		t.Errorf("err %v, %d slots", err, len(a.slots))
	}
	release()
}

// Callers that come, wait, leave and are cut short at random never exceed the share, and lose no slot.
func TestNeverMoreThanTheShareAndNoSlotLost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			share := 1 + rnd.IntN(3)
			a, b := New(Options{}), bounded("b", share)
			a.Apply(routesWith(b))
			var inFlight, most atomic.Int64
			var callers sync.WaitGroup
			for range 60 {
				arrive, patience := jitter(rnd, 50), jitter(rnd, 30)
				hold, opens := jitter(rnd, 10), jitter(rnd, 200)
				wait := Wait{Length: 1 + rnd.IntN(20), MaxWait: jitter(rnd, 40)}
				callers.Go(func() {
					pass(arrive)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					opened := make(chan struct{})
					defer time.AfterFunc(opens, func() { close(opened) }).Stop()
					wait.Opened = opened
					release, err := a.Acquire(ctx, b, wait)
					if err != nil {
						return
					}
					n := inFlight.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					pass(hold)
					inFlight.Add(-1)
					release()
					release()
				})
			}
			callers.Wait()
			if most.Load() > int64(share) {
				t.Errorf("seed %d: %d in flight, share %d", seed, most.Load(), share)
			}
			if len(a.slots) != 0 {
				t.Errorf("seed %d: a slot was lost: %+v", seed, a.slots["b"])
			}
		})
	}
}

func jitter(rnd *rand.Rand, most int) time.Duration {
	return time.Duration(1+rnd.IntN(most)) * time.Millisecond
}

func BenchmarkAcquireFree(b *testing.B) {
	a, backend := New(Options{}), bounded("b", 8)
	b.ReportAllocs()
	for b.Loop() {
		release, err := a.Acquire(b.Context(), backend, Wait{})
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}

// Apply looks only at what differs between two tables. Whatever tables come, it is to know the same as if it had read the last one
// whole.
func TestApplyKnowsTheBoundsOfTheWholeTableHoweverItCame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := New(Options{})
	routes := map[string]*table.Route{}
	for step := range 300 {
		for range random.IntN(4) {
			name := fmt.Sprint("route-", random.IntN(8))
			r := &table.Route{Namespace: "ns", Name: name, Model: name}
			for range random.IntN(4) {
				r.Chain = append(r.Chain, table.Backend{ID: table.BackendID(fmt.Sprint(random.IntN(10))), MaxInFlight: random.IntN(3)})
			}
			routes[name] = r
			if random.IntN(3) == 0 {
				delete(routes, name)
			}
		}
		next := table.New(slices.Collect(maps.Values(routes)))
		a.Apply(next)
		whole := New(Options{})
		whole.Apply(next)
		if diff := cmp.Diff(whole.bounds, a.bounds); diff != "" {
			t.Fatalf("step %d (-want +got):\n%s", step, diff)
		}
	}
}
