package sim

import (
	"fmt"
	"strings"
)

// Mode is how the backend treats the requests that arrive while it is on.
type Mode string

const (
	// Idle answers.
	Idle Mode = "idle"
	// Busy accepts the request and stays silent: not even headers. The founding case.
	Busy Mode = "busy"
	// BusyHeaders sends headers and, to a streaming request, a role chunk, then stays silent.
	BusyHeaders Mode = "busy-headers"
	// Down resets the connection.
	Down Mode = "down"
	// Slow answers, but the first token takes Config.SlowDelay.
	Slow Mode = "slow"
	// Error answers 500.
	Error Mode = "error"
	// Refuse answers 429 with Retry-After.
	Refuse Mode = "refuse"
	// ErrorEvent answers 200 and carries an error where the first token belongs.
	ErrorEvent Mode = "error-event"
	// Loading answers 503 "Loading model", as llama.cpp does.
	Loading Mode = "loading"
)

var modes = []Mode{Idle, Busy, BusyHeaders, Down, Slow, Error, Refuse, ErrorEvent, Loading}

// ModeNames lists all modes for a person.
func ModeNames() string {
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = string(m)
	}
	return strings.Join(names, ", ")
}

// ParseMode accepts a mode's name with white space around it. The error lists the names that there are.
func ParseMode(name string) (Mode, error) {
	for _, m := range modes {
		if strings.TrimSpace(name) == string(m) {
			return m, nil
		}
	}
	return "", fmt.Errorf("unknown mode %q, it is one of: %s", name, ModeNames())
}
