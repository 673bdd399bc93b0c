package openai

// AppendStream appends a JSON completion as the stream that the caller asked for: chunk, finish, usage where
// includeUsage is set and known, [DONE]. The endpoint must convert and the body must have been judged a Success.
func AppendStream(dst []byte, ep Endpoint, body []byte) ([]byte, error) { panic("todo") }

// Collector assembles a stream into the one JSON completion that the caller asked for. Make one with NewCollector.
type Collector struct{ ep Endpoint }

// NewCollector returns a Collector for an endpoint that converts.
func NewCollector(ep Endpoint) *Collector { return &Collector{ep: ep} }

// Add takes the data of one event; [DONE] is ignored. An error means that it is no chunk of the dialect.
func (c *Collector) Add(data []byte) error { panic("todo") }

// Body returns the completion. It is an error when no chunk with a choice was seen.
func (c *Collector) Body() ([]byte, error) { panic("todo") }
