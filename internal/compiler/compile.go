package compiler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/internal/table"
)

// Compile turns a snapshot into the table and the verdict on every object. It never fails and never panics, whatever the
// objects look like. now decides which pins have ended; nothing else depends on it.
func Compile(s Snapshot, now time.Time) Result {
	return Result{
		Table:  table.New(nil),
		Routes: map[types.NamespacedName]*RouteVerdict{},
		Pins:   map[types.NamespacedName]*PinVerdict{},
	}
}
