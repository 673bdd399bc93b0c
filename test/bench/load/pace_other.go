//go:build !linux

package load

import "time"

// waitUntil may be a millisecond late.
func waitUntil(t time.Time) { time.Sleep(time.Until(t)) }
