package breaker

import "testing"

// Callers that queue while one of them is wanted as the probe go on when another has become it.
func TestThoseWhoQueueLeaveToTheProbe(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown)
	waiting := x.r.Opened("a")
	if isClosed(waiting) {
		t.Fatal("the caller that is wanted as the probe was told to leave")
	}
	x.admit("a", chat, Normal)
	if !isClosed(waiting) {
		t.Error("who queues behind the probe waits for its end")
	}
}
