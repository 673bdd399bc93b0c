package breaker

import "time"

// Clock tells the time twice. Monotonic never jumps and is what every decision uses; Wall is what people see, and what
// pins start and end by.
type Clock interface {
	// Monotonic is the time since an arbitrary fixed instant.
	Monotonic() time.Duration
	Wall() time.Time
}

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{start: time.Now()} }

type systemClock struct{ start time.Time }

// Monotonic uses the monotonic reading that start carries, so a wall-clock step does not show in it.
func (c systemClock) Monotonic() time.Duration { return time.Since(c.start) }

func (c systemClock) Wall() time.Time { return time.Now().Round(0) }
