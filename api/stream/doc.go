// Package stream is the caller's half of Spillway's wire contract: the heartbeat comments that a proxy writes into a
// stream while its caller waits, and a reader that uses them.
//
// A total deadline ignores heartbeats: a turn that is queued and one that hangs die at the same second. A Reader gives a
// caller two bounds instead. Silence is ErrSilent: nothing came for the idle time, and trying again can work. The
// context's end is the context's error: the turn ran into its ceiling, perhaps while it made progress, and trying again
// cannot.
//
// The package needs only the standard library and works with every OpenAI-compatible server; heartbeats are simply
// absent elsewhere.
package stream
