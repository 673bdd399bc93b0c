package burst

import "time"

// Record is a whole run, for programs and for comparison with a later one. It holds no credential and no answer.
type Record struct {
	Version string    `json:"version"` // of the program
	Began   time.Time `json:"began"`
	Target  string    `json:"target"` // address of the API
	Model   string    `json:"model"`
	Route   string    `json:"route,omitempty"` // namespace/name; empty where none was read
	// RateLimit is the route's own.
	RateLimit Limit `json:"rateLimit"`
	Planned   int   `json:"planned"` // calls
	Made      int   `json:"made"`
	// Complete says that the run was not ended early.
	Complete bool    `json:"complete"`
	Levels   []Level `json:"levels"`
	Verdict  Verdict `json:"verdict"`
}

// NewRecord sums a run up; what it cannot know is left to the caller.
func NewRecord(p Plan, levels []Level, settled *Answer, limit Limit) Record {
	made := total(levels).Calls
	return Record{
		RateLimit: limit, Planned: p.Calls(), Made: made, Complete: made == p.Calls(),
		Levels: levels, Verdict: Judge(levels, settled, limit),
	}
}
