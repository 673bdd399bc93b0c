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

// One that closes while they queue is theirs.
func TestThoseWhoQueueStayWhereItCloses(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown)
	waiting := x.r.Opened("a")
	x.r.Adopt("other", []Record{{ID: "a", State: Closed, Epoch: 2}})
	if isClosed(waiting) {
		t.Error("told to leave a backend that is well")
	}
}
