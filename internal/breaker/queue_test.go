package breaker

import "testing"

// Callers that queue while one of them is wanted as the probe go on when another has become it.
func TestThoseWhoQueueLeaveToTheProbe(t *testing.T) {
	x := newRig(t, "pod", server("a", byRequest))
	x.silent("a", 2)
	x.clock.pass(satCooldown)
	waiting := x.r.Opened("a", chat, Normal)
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
	waiting := x.r.Opened("a", chat, Normal)
	x.r.Adopt("other", []Record{{ID: "a", State: Closed, Epoch: 2}})
	if isClosed(waiting) {
		t.Error("told to leave a backend that is well")
	}
}

// Who comes to the queue when the time of a pair or of a probe is over is not told to leave.
func TestWhatIsOverSendsNobodyOn(t *testing.T) {
	x := newRig(t, "pod", server("a"), server("b", byRequest))
	x.admit("a", chat, Normal).Done(Result{Kind: EndpointMissing})
	x.failed("b", 5)
	x.admit("b", chat, LastResort)
	x.clock.pass(withSlack(minProbeBound))
	if isClosed(x.r.Opened("a", chat, Normal)) || isClosed(x.r.Opened("b", chat, Normal)) {
		t.Error("told to leave for what is over")
	}
}

// A last resort waits for a slot, but not behind another one: one request at a time is let through.
func TestLastResortsDoNotQueueBehindEachOther(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	x.silent("a", 2)
	waiting := x.r.Opened("a", chat, LastResort)
	if isClosed(waiting) {
		t.Fatal("the last resort was told to leave")
	}
	x.admit("a", chat, LastResort)
	if !isClosed(waiting) || !isClosed(x.r.Opened("a", chat, LastResort)) {
		t.Error("who queues behind the last resort waits for its end")
	}
}

// Who queues for a pair that comes to be passed over goes on at once; who queues for the same backend with another endpoint stays.
func TestThoseWhoQueueForAPairThatIsPassedOverGoOn(t *testing.T) {
	x := newRig(t, "pod", server("a"))
	first, second := x.admit("a", chat, Normal), x.admit("a", chat, Normal)
	waiting, other := x.r.Opened("a", chat, Normal), x.r.Opened("a", embeddings, Normal)
	if isClosed(waiting) {
		t.Fatal("told to leave a backend that is well")
	}
	first.Done(Result{Kind: EndpointMissing})
	if !isClosed(waiting) || !isClosed(x.r.Opened("a", chat, Normal)) {
		t.Error("who queues for the pair waits on")
	}

	// Where nothing else is left, one at a time is let through, and the others do not queue behind it.
	last := x.r.Opened("a", chat, LastResort)
	if isClosed(last) {
		t.Fatal("the last resort was told to leave")
	}
	trial := x.admit("a", chat, LastResort)
	if !isClosed(last) || !isClosed(x.r.Opened("a", chat, LastResort)) {
		t.Error("who queues behind the last resort waits for its end")
	}
	second.Done(Result{Kind: EndpointMissing})
	if _, ok := x.r.Admit("a", chat, LastResort); ok {
		t.Error("another 404 let a second last resort through")
	}
	trial.Done(Result{})
	x.admit("a", chat, LastResort)
	if isClosed(other) {
		t.Error("who queues with another endpoint was told to leave")
	}
	x.admit("a", embeddings, Normal).Done(Result{Kind: Misconfigured})
	if !isClosed(other) {
		t.Error("nobody told it that the breaker opened")
	}
}
