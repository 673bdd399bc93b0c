package compiler

import (
	"cmp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// limit is the smallest value of one setting among the routes that name a backend.
type limit struct {
	value int64
	owner types.NamespacedName
}

// limitFields are the settings that are one per backend identity, with how to reach each.
var limitFields = []struct {
	name  string
	get   func(*table.Backend) int64
	set   func(*table.Backend, *BackendVerdict, int64)
	print func(int64) string
}{
	{
		name: "failure.threshold", print: printNumber,
		get: func(b *table.Backend) int64 { return int64(b.Failure.Threshold) },
		set: func(b *table.Backend, v *BackendVerdict, n int64) {
			b.Failure.Threshold, v.Failure.Threshold = int(n), int(n)
		},
	},
	{
		name: "failure.cooldown", print: printSpan,
		get: func(b *table.Backend) int64 { return int64(b.Failure.Cooldown) },
		set: func(b *table.Backend, v *BackendVerdict, n int64) {
			b.Failure.Cooldown, v.Failure.Cooldown = time.Duration(n), time.Duration(n)
		},
	},
	{
		name: "saturation.threshold", print: printNumber,
		get: func(b *table.Backend) int64 { return int64(b.Saturation.Threshold) },
		set: func(b *table.Backend, v *BackendVerdict, n int64) {
			b.Saturation.Threshold, v.Saturation.Threshold = int(n), int(n)
		},
	},
	{
		name: "saturation.cooldown", print: printSpan,
		get: func(b *table.Backend) int64 { return int64(b.Saturation.Cooldown) },
		set: func(b *table.Backend, v *BackendVerdict, n int64) {
			b.Saturation.Cooldown, v.Saturation.Cooldown = time.Duration(n), time.Duration(n)
		},
	},
	{
		name: "maxInFlight", print: printNumber,
		get: func(b *table.Backend) int64 { return int64(b.MaxInFlight) },
		set: func(b *table.Backend, v *BackendVerdict, n int64) { b.MaxInFlight, v.MaxInFlight = int(n), int(n) },
	},
}

func printNumber(n int64) string { return strconv.FormatInt(n, 10) }
func printSpan(n int64) string   { return string(v1alpha1.FormatDuration(time.Duration(n))) }

// sharedBackend is what the routes that name one backend agree on.
type sharedBackend struct {
	limits [5]limit // by limitFields
	group  string
}

// lowerSharedLimits gives each backend that several routes of a namespace name the smallest limits among them, because there is
// one breaker and one queue for it. Routes that are not in the table do not count.
func lowerSharedLimits(routes []*routeDraft) {
	uses := make(map[table.BackendID]int, 2*len(routes))
	eachBackend(routes, func(_ *routeDraft, b *table.Backend) { uses[b.ID]++ })
	shared := map[table.BackendID]*sharedBackend{}
	eachBackend(routes, func(d *routeDraft, b *table.Backend) {
		if uses[b.ID] == 1 {
			return
		}
		if shared[b.ID] == nil {
			shared[b.ID] = &sharedBackend{}
		}
		shared[b.ID].join(d.verdict.Key, b)
	})
	eachBackend(routes, func(d *routeDraft, b *table.Backend) {
		if s := shared[b.ID]; s != nil && s.differs(b) {
			d.own()
			s.lower(d.entry.Backend(b.Name), d.verdict.Backend(b.Name))
		}
	})
}

func eachBackend(routes []*routeDraft, visit func(*routeDraft, *table.Backend)) {
	for _, d := range routes {
		if d.entry == nil {
			continue
		}
		chain := d.entry.Chain // as it is before the visits
		for i := range chain {
			visit(d, &chain[i])
		}
	}
}

// join takes a route's limits in. Of equal ones the first route's count; 0 is no limit and never counts.
func (s *sharedBackend) join(owner types.NamespacedName, b *table.Backend) {
	for i := range limitFields {
		if n := limitFields[i].get(b); n > 0 && (s.limits[i].value == 0 || n < s.limits[i].value) {
			s.limits[i] = limit{n, owner}
		}
	}
	// One backend is in one group. Where routes differ the first name counts, where one names none it gets the others'.
	if b.Group != "" && (s.group == "" || cmp.Less(b.Group, s.group)) {
		s.group = b.Group
	}
}

// differs says whether a route has something else than is agreed on.
func (s *sharedBackend) differs(b *table.Backend) bool {
	for i := range limitFields {
		if limitFields[i].get(b) != s.limits[i].value {
			return true
		}
	}
	return b.Group != s.group
}

func (s *sharedBackend) lower(b *table.Backend, v *BackendVerdict) {
	b.Group = s.group
	for i := range limitFields {
		field, smallest := &limitFields[i], s.limits[i]
		if field.get(b) == smallest.value {
			continue
		}
		field.set(b, v, smallest.value)
		v.Lowered = append(v.Lowered, Lowered{Field: field.name, Value: field.print(smallest.value), Route: smallest.owner})
	}
}
