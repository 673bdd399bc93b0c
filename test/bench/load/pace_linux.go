package load

import (
	"syscall"
	"time"
)

// waitUntil sleeps on the thread itself: Go's own timers are a millisecond late when nothing else runs, which is more
// than the time between two requests.
func waitUntil(t time.Time) {
	if d := time.Until(t); d > 0 {
		pause := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&pause, nil) // woken early, the request is early: nothing is lost
	}
}
