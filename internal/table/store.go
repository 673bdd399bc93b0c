package table

import (
	"sync"
	"sync/atomic"
)

// Store holds the table that a proxy serves from. Load is wait-free; a request calls it once and keeps that snapshot to
// its end. Writers assemble the next table outside of the readers' way and swap it in whole.
type Store struct {
	current atomic.Pointer[Table]

	mu        sync.Mutex // serializes writers
	shards    [Shards]*Shard
	revisions [Shards]Revision
	ready     atomic.Bool
	prepare   []func(*Table)
	onSwap    []func(*Table)
}

// NewStore returns a store with an empty table that is not ready.
func NewStore() *Store {
	s := &Store{}
	s.current.Store(New(nil))
	return s
}

// Load returns the current table, never nil.
func (s *Store) Load() *Table { return s.current.Load() }

// Ready says whether every shard has been read once, or a whole table was set.
func (s *Store) Ready() bool { return s.ready.Load() }

// Prepare registers f to be called with each new table just before it is live, in order and never concurrently: who loads
// a table finds in place all that follows it, such as the breakers of its backends. It is called at once with the current
// table.
func (s *Store) Prepare(f func(*Table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepare = append(s.prepare, f)
	f(s.Load())
}

// OnSwap registers f to be called with each new table, after it is live, in order and never concurrently. It is called
// at once with the current table.
func (s *Store) OnSwap(f func(*Table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSwap = append(s.onSwap, f)
	f(s.Load())
}

// Set replaces the whole table, for standalone mode.
func (s *Store) Set(t *Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swap(t)
}

// Shard returns a shard as it is served; nil where it was never read.
func (s *Store) Shard(index int) *Shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[index]
}

// SetShard replaces one shard and reports whether that changed anything. Until every shard has been read once, nothing
// is served from any of them: a half-read table would answer 404 for models that exist.
func (s *Store) SetShard(index int, shard *Shard, revision Revision) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[index] != nil && s.revisions[index] == revision {
		return false
	}
	was, whole := s.shards[index], s.isWhole()
	s.shards[index], s.revisions[index] = shard, revision
	if whole {
		if next := s.Load().exchange(was.Routes, shard.Routes); next != nil {
			s.swap(next)
			return true
		}
	}
	var routes []*Route
	for _, sh := range s.shards {
		if sh == nil {
			return true
		}
		routes = append(routes, sh.Routes...)
	}
	s.swap(New(routes))
	return true
}

// isWhole says whether the current table is the routes of all shards: all are read, and none has the key of another.
func (s *Store) isWhole() bool {
	n := 0
	for _, sh := range s.shards {
		if sh == nil {
			return false
		}
		n += len(sh.Routes)
	}
	return n == len(s.Load().routes)
}

// Revisions returns the revision of each shard that is being served; empty where none was read.
func (s *Store) Revisions() [Shards]Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revisions
}

func (s *Store) swap(t *Table) {
	for _, f := range s.prepare {
		f(t)
	}
	s.current.Store(t)
	s.ready.Store(true) // not before: the empty table of the start must not answer for it
	for _, f := range s.onSwap {
		f(t)
	}
}
