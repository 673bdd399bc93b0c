package telemetry

import (
	"context"
	"io"
	"log/slog"
	"time"
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
	Backend   string // the one that answered; empty where none did
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
type AccessLog struct{ handler slog.Handler }

// NewAccessLog returns an access log that writes through the logger's handler.
func NewAccessLog(logger *slog.Logger) AccessLog { return AccessLog{handler: logger.Handler()} }

// Write adds one line, at the time now.
func (l AccessLog) Write(now time.Time, a *Access) {
	if l.handler == nil || !l.handler.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	record := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	var attrs [21]slog.Attr // one line is one allocation, whatever it says
	record.AddAttrs(a.attrs(attrs[:0])...)
	// A log that cannot be written must not fail the request it is about.
	_ = l.handler.Handle(context.Background(), record)
}

// attrs tells times in whole microseconds: fractions would cost a reflecting encoder for each.
func (a *Access) attrs(attrs []slog.Attr) []slog.Attr {
	attrs = append(attrs, slog.String("id", a.RequestID), slog.String("route", a.Route), slog.String("endpoint", a.Endpoint),
		slog.Bool("stream", a.Stream), slog.Int("code", a.Code), slog.Int("attempts", a.Attempts),
		slog.Int64("duration_us", a.Duration.Microseconds()), slog.Int64("bytes_in", a.BytesIn), slog.Int64("bytes_out", a.BytesOut))
	attrs = appendText(attrs, "caller", a.Caller)
	attrs = appendText(attrs, "backend", a.Backend)
	attrs = appendText(attrs, "reason", a.Reason)
	attrs = appendText(attrs, "error", a.Error)
	attrs = appendText(attrs, "cause", a.Cause)
	attrs = appendText(attrs, "hint", a.Hint)
	attrs = appendText(attrs, "hint_applied", a.HintApplied)
	attrs = appendText(attrs, "trace_id", a.TraceID)
	if a.TTFT > 0 {
		attrs = append(attrs, slog.Int64("ttft_us", a.TTFT.Microseconds()))
	}
	if a.Queued > 0 {
		attrs = append(attrs, slog.Int64("queued_us", a.Queued.Microseconds()))
	}
	if a.Prompt > 0 || a.Completed > 0 {
		attrs = append(attrs, slog.Int64("prompt_tokens", a.Prompt), slog.Int64("completion_tokens", a.Completed))
	}
	return attrs
}

func appendText(attrs []slog.Attr, key, value string) []slog.Attr {
	if value == "" {
		return attrs
	}
	return append(attrs, slog.String(key, value))
}
