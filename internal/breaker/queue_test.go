package breaker

import "testing"

// Callers that queue while one of them is wanted as the probe go on when another has become it.
func TestThoseWhoQueueLeaveToTheProbe(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown)
	waiting := x.r.Opened("a", Normal)
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
	waiting := x.r.Opened("a", Normal)
	x.r.Adopt("other", []Record{{ID: "a", State: Closed, Epoch: 2}})
	if isClosed(waiting) {
		t.Error("told to leave a backend that is well")
	}
}

// A last resort waits for a slot, but not behind another one: one request at a time is let through.
func TestLastResortsDoNotQueueBehindEachOther(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.silent("a", 2)
	waiting := x.r.Opened("a", LastResort)
	if isClosed(waiting) {
		t.Fatal("the last resort was told to leave")
	}
	x.admit("a", chat, LastResort)
	if !isClosed(waiting) || !isClosed(x.r.Opened("a", LastResort)) {
		t.Error("who queues behind the last resort waits for its end")
	}
}
