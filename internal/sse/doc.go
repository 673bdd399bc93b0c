// Package sse finds the boundaries of server-sent events and writes events and comments.
//
// In the flow it stands between a backend's response body and the caller: internal/proxy reads the body into a Scanner,
// takes whole events from it, lets internal/openai judge their data, and passes their bytes on. Nothing is decoded and
// re-encoded on the way: the bytes of an event change only where the stream's own framing demands it (line ends become
// LF; comments, id and retry lines and one leading byte order mark go).
//
// The package knows neither HTTP nor JSON dialects, starts no goroutine and reads no clock.
package sse
