package telemetry

import (
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// NewLogger returns a logger that writes one JSON object per line to w.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// Access is what one line of the access log says about a request. It holds names and numbers only: no prompt, no answer,
// no credential, no host.
type Access struct {
	RequestID string
	Route     string // namespace/name; empty where the request resolved to none
	Endpoint  string
	Caller    string // its account or its key's name; empty where callers are not told apart, or it is unknown
	Stream    bool
	Code      int    // HTTP status; 499 where the caller left
	Error     string // code of the error that the caller got; empty on success
	Backend   string // the one that answered, else the one that was asked last; empty where none was
	Attempts  int
	Reason    string // why that backend
	Cause     string // how the last attempt that did not succeed ended, free of hosts

	TTFT      time.Duration // 0: no token came
	Duration  time.Duration
	Queued    time.Duration
	BytesIn   int64
	BytesOut  int64
	Prompt    int64 // tokens, from usage
	Completed int64 // tokens, from usage

	Hint        string // the backend that the caller asked for
	HintApplied string // applied, not-in-chain or ignored; empty without a hint

	TraceID string // empty where the request is not traced
}

// AccessLog writes access lines. The zero value writes nothing.
type AccessLog struct{ w io.Writer }

// NewAccessLog returns an access log that hands each line to w in one write.
func NewAccessLog(w io.Writer) AccessLog { return AccessLog{w: w} }

// lines are buffers for one line each.
var lines = sync.Pool{New: func() any { return new([]byte) }}

// Write adds one line, at the time now. It has the form of the other log's lines (NewLogger), but is put together here: a
// handler of slog takes four times as long, for each request.
func (l AccessLog) Write(now time.Time, a *Access) {
	if l.w == nil {
		return
	}
	line := lines.Get().(*[]byte)
	*line = a.appendLine((*line)[:0], now)
	// A log that cannot be written must not fail the request it is about.
	_, _ = l.w.Write(*line)
	lines.Put(line)
}

// appendLine tells times in whole microseconds, and leaves out what there is nothing to say of.
func (a *Access) appendLine(b []byte, now time.Time) []byte {
	b = append(b, `{"time":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"INFO","msg":"request"`...)
	b = appendText(b, `,"id":`, a.RequestID)
	b = appendText(b, `,"route":`, a.Route)
	b = appendText(b, `,"endpoint":`, a.Endpoint)
	b = strconv.AppendBool(append(b, `,"stream":`...), a.Stream)
	b = appendInt(b, `,"code":`, int64(a.Code))
	b = appendInt(b, `,"attempts":`, int64(a.Attempts))
	b = appendInt(b, `,"duration_us":`, a.Duration.Microseconds())
	b = appendInt(b, `,"bytes_in":`, a.BytesIn)
	b = appendInt(b, `,"bytes_out":`, a.BytesOut)
	for _, text := range [...]struct{ key, value string }{
		{`,"caller":`, a.Caller}, {`,"backend":`, a.Backend}, {`,"reason":`, a.Reason}, {`,"error":`, a.Error}, {`,"cause":`, a.Cause},
		{`,"hint":`, a.Hint}, {`,"hint_applied":`, a.HintApplied}, {`,"trace_id":`, a.TraceID},
	} {
		if text.value != "" {
			b = appendText(b, text.key, text.value)
		}
	}
	if a.TTFT > 0 {
		b = appendInt(b, `,"ttft_us":`, a.TTFT.Microseconds())
	}
	if a.Queued > 0 {
		b = appendInt(b, `,"queued_us":`, a.Queued.Microseconds())
	}
	if a.Prompt > 0 || a.Completed > 0 {
		b = appendInt(b, `,"prompt_tokens":`, a.Prompt)
		b = appendInt(b, `,"completion_tokens":`, a.Completed)
	}
	return append(b, "}\n"...)
}

func appendText(b []byte, key, value string) []byte {
	b, _ = jsontext.AppendQuote(append(b, key...), value) // the only error is invalid UTF-8, and then it has been replaced
	return b
}

func appendInt(b []byte, key string, value int64) []byte {
	return strconv.AppendInt(append(b, key...), value, 10)
}
