package controller

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

const (
	// watchWallEvery is how often the wall clock is compared with a timer.
	watchWallEvery = 5 * time.Second
	// wallSlack is how late a timer of a busy machine may be, or how far a clock may be corrected, before we call it a jump.
	wallSlack = 2 * time.Second
)

// jumps notices when the wall clock has not gone on like our timers: the machine slept, or somebody set its clock. Pins go by the
// wall clock, and who waits for one to start or end waits by a timer, which knows nothing of that. It runs on every replica.
type jumps struct {
	clock  clock.Clock
	jumped func()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (j *jumps) NeedLeaderElection() bool { return false }

// Start watches until ctx ends.
func (j *jumps) Start(ctx context.Context) error {
	for {
		before := j.wall()
		if !pause(ctx, j.clock, watchWallEvery) {
			return nil
		}
		if passed := j.wall().Sub(before); (passed - watchWallEvery).Abs() > wallSlack {
			j.jumped()
		}
	}
}

// wall is the time without the monotonic reading that would hide a jump.
func (j *jumps) wall() time.Time { return j.clock.Now().Round(0) }
