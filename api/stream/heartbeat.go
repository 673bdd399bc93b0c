package stream

import (
	"bytes"
	"encoding/json"
	"time"
)

// State is what a waiting request does at the moment.
type State string

// States of a request, in the order in which they can follow each other.
const (
	// StateQueued: waits for a backend's slot; told again when the position changes.
	StateQueued State = "queued"
	// StateAttempt: a backend is being tried.
	StateAttempt State = "attempt"
	// StateBackendSaturated: an attempt was given up because the backend is busy.
	StateBackendSaturated State = "backend_saturated"
	// StateBackendFailed: an attempt was given up because the backend failed.
	StateBackendFailed State = "backend_failed"
	// StateUpstreamStarted: the first token arrived.
	StateUpstreamStarted State = "upstream_started"
)

// Heartbeat is the JSON object in a heartbeat comment. Which fields are set depends on the state.
type Heartbeat struct {
	State State
	// N of Of: the attempt's number and how many there may be at most; from 1.
	N, Of int
	// Backend is a name from the route's chain, never an address.
	Backend string
	Regime  string
	// Position in the queue, from 1.
	Position int
	// FailingOver says that another backend is tried next. It is always written for backend_saturated and
	// backend_failed, and for no other state.
	FailingOver bool
	// Code says why an attempt was given up.
	Code string
	// Reason says why this backend serves: first, pinned, preferred, breaker-open, saturated, failed, spilled.
	Reason string
	// ElapsedMS is set where a keepalive repeats the state: milliseconds since the request came in.
	ElapsedMS int64
}

// wireHeartbeat is a Heartbeat on the wire, in the order in which its members are written.
type wireHeartbeat struct {
	State       State  `json:"state"`
	N           int    `json:"n,omitempty"`
	Of          int    `json:"of,omitempty"`
	Backend     string `json:"backend,omitempty"`
	Regime      string `json:"regime,omitempty"`
	Position    int    `json:"position,omitempty"`
	FailingOver *bool  `json:"failing_over,omitempty"`
	Code        string `json:"code,omitempty"`
	Reason      string `json:"reason,omitempty"`
	ElapsedMS   int64  `json:"elapsed_ms,omitempty"`
}

// Elapsed is ElapsedMS as a duration; 0 where the heartbeat is no repetition.
func (h *Heartbeat) Elapsed() time.Duration { return time.Duration(h.ElapsedMS) * time.Millisecond }

// AppendJSON appends the heartbeat as one line of JSON, as it stands behind ": " in a comment.
func (h *Heartbeat) AppendJSON(dst []byte) []byte {
	wire := wireHeartbeat{
		State: h.State, N: h.N, Of: h.Of, Backend: h.Backend, Regime: h.Regime, Position: h.Position,
		Code: h.Code, Reason: h.Reason, ElapsedMS: h.ElapsedMS,
	}
	if h.State == StateBackendSaturated || h.State == StateBackendFailed {
		wire.FailingOver = &h.FailingOver
	}
	line, err := json.Marshal(wire)
	if err != nil { // strings, numbers and booleans always marshal
		return append(dst, "{}"...)
	}
	return append(dst, line...)
}

// ParseHeartbeat reads the text of a comment (without its colon). It returns false for every other comment: not every
// server's comments are heartbeats, and one that cannot be read is skipped.
func ParseHeartbeat(comment []byte) (*Heartbeat, bool) {
	comment = bytes.TrimSpace(comment)
	if len(comment) == 0 || comment[0] != '{' {
		return nil, false
	}
	var wire wireHeartbeat
	if err := json.Unmarshal(comment, &wire); err != nil || wire.State == "" {
		return nil, false
	}
	return &Heartbeat{
		State: wire.State, N: wire.N, Of: wire.Of, Backend: wire.Backend, Regime: wire.Regime, Position: wire.Position,
		FailingOver: wire.FailingOver != nil && *wire.FailingOver,
		Code:        wire.Code, Reason: wire.Reason, ElapsedMS: wire.ElapsedMS,
	}, true
}
