package stream

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
	State State `json:"state"`
	// N of Of: the attempt's number and how many there may be at most; from 1.
	N  int `json:"n,omitempty"`
	Of int `json:"of,omitempty"`
	// Backend is a name from the route's chain, never an address.
	Backend string `json:"backend,omitempty"`
	Regime  string `json:"regime,omitempty"`
	// Position in the queue, from 1.
	Position int `json:"position,omitempty"`
	// FailingOver says that another backend is tried next.
	FailingOver bool `json:"failing_over,omitempty"`
	// Code says why an attempt was given up.
	Code string `json:"code,omitempty"`
	// Reason says why this backend serves: first, pinned, preferred, breaker-open, saturated, failed, spilled.
	Reason string `json:"reason,omitempty"`
	// ElapsedMS is set where a keepalive repeats the state: milliseconds since the request came in.
	ElapsedMS int64 `json:"elapsed_ms,omitempty"`
}

// AppendJSON appends the heartbeat as one line of JSON, as it stands behind ": " in a comment.
func (h *Heartbeat) AppendJSON(dst []byte) []byte { panic("todo") }

// ParseHeartbeat reads the text of a comment (without its colon). It returns false for every other comment.
func ParseHeartbeat(comment []byte) (*Heartbeat, bool) { panic("todo") }
