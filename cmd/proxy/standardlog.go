package main

import (
	"log"
	"log/slog"
)

// quietStandardLog takes what libraries write to Go's standard log. net/http quotes there the first bytes that a backend
// sends unasked, so only the fact is told.
type quietStandardLog struct{ log *slog.Logger }

func (q quietStandardLog) Write(p []byte) (int, error) {
	q.log.Debug("a library logged something; its text is left out, it may quote a backend")
	return len(p), nil
}

// takeStandardLog sends the standard log to ours, for the whole process.
func takeStandardLog(ours *slog.Logger) { log.SetOutput(quietStandardLog{ours}) }
