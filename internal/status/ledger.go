package status

import (
	"slices"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// history is how many revisions of a shard a Ledger remembers. A proxy that lags further behind counts as not serving.
const history = 64

// Ledger remembers which published revisions hold which generation of a route, so that a proxy that serves a shard of a
// moment ago still counts for the routes that have not changed since. It is not safe for concurrent use.
type Ledger struct {
	shards [table.Shards]shardLedger
}

type shardLedger struct {
	sequence  int
	revisions []publication // the oldest first
	routes    map[string]entry
}

type publication struct {
	revision table.Revision
	sequence int
}

// entry is a route as it stands in its shard, and since which publication.
type entry struct {
	generation int64
	created    time.Time
	uid        string // tells a recreated route from the one before, of the same generation and perhaps the same second
	since      int
}

// is says whether two entries are of one generation of one object. An entry of an older release has no uid.
func (e entry) is(other entry) bool {
	return e.generation == other.generation && e.created.Equal(other.created) && (e.uid == other.uid || e.uid == "" || other.uid == "")
}

// Publish notes that a shard was written. It returns the keys of the routes whose generation is new in it, in the order of the
// shard, and the revision that it forgets, empty for none.
func (l *Ledger) Publish(index int, revision table.Revision, routes []*table.Route) (fresh []string, forgotten table.Revision) {
	s := &l.shards[index]
	s.sequence++
	s.revisions = append(s.revisions, publication{revision, s.sequence})
	if len(s.revisions) > history {
		forgotten = s.revisions[0].revision
		s.revisions = s.revisions[1:]
		if s.lastOf(forgotten) > 0 {
			forgotten = "" // it was published again
		}
	}
	was := s.routes
	s.routes = make(map[string]entry, len(routes))
	for _, r := range routes {
		key := r.Key()
		now := entry{generation: r.Generation, created: r.Created, uid: r.UID, since: s.sequence}
		if old, ok := was[key]; ok && old.is(now) {
			now.since = old.since
		} else {
			fresh = append(fresh, key)
		}
		s.routes[key] = now
	}
	return fresh, forgotten
}

// lastOf is the last publication of a revision, 0 where it is not remembered.
func (s *shardLedger) lastOf(revision table.Revision) int {
	for _, p := range slices.Backward(s.revisions) {
		if p.revision == revision {
			return p.sequence
		}
	}
	return 0
}

// Concerned returns the keys of the published routes for which a proxy's move counts: that one of the two revisions holds as they
// are and the other does not. They are in no order.
func (l *Ledger) Concerned(m Move) (keys []string) {
	s := &l.shards[m.Shard]
	from, to := s.lastOf(m.From), s.lastOf(m.To)
	for key, e := range s.routes {
		if (from >= e.since) != (to >= e.since) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Holding returns the published revisions of the route's shard that hold that generation of the object with that uid; none
// while it is not published.
func (l *Ledger) Holding(key, uid string, generation int64) map[table.Revision]bool {
	s := &l.shards[table.ShardOf(key)]
	e, ok := s.routes[key]
	if !ok || e.generation != generation || e.uid != "" && e.uid != uid {
		return nil
	}
	holding := map[table.Revision]bool{}
	for _, p := range s.revisions {
		if p.sequence >= e.since {
			holding[p.revision] = true
		}
	}
	return holding
}
