package sdk

import "fmt"

// physical is the model that backends answer with.
const physical = "physical-model"

// dialect is what a backend says in one of the dialects, in the pieces that scripts put together.
type dialect struct {
	suffix string // of a backend's base URL
	asks   string // what every request has in it

	prelude []string // events before the first token
	text    []string // events with textTold in them; nil: the dialect has vectors in place of text and never streams
	tools   []string // events of two tool calls, their arguments in fragments; nil: the dialect knows no tools
	finish  []string // events at the end of a text
	called  []string // events at the end of tool calls
	done    string   // what follows the events; empty where the last event is the end

	body     string // the text as one body
	toolBody string // the tool calls as one body

	errorBody  func(status int, message string) string
	errorEvent string // an error in a stream
}

// textTold is what the events of dialect.text say.
const textTold = "Paris: naïve rain ☔, 東京: sun.\nEnd"

// fragments of textTold.
var fragments = []string{"Paris: na", "ïve rain ", "☔, 東", "京: sun.\nEnd"}

const reasoningTold = "Two cities, two lookups."

var (
	parisPieces = []string{`{"ci`, `ty":"Pa`, `ris"}`}
	tokyoPieces = []string{`{"city":`, `"東京"`, `}`}
)

// typed is one event of the dialects whose events have names.
func typed(kind, members string) string {
	if members != "" {
		members = "," + members
	}
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, members)
}
