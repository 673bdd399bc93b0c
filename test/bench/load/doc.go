// Package load sends requests to an OpenAI-compatible endpoint and says how they fared: as many as are answered (Closed),
// at a fixed rate (Open), many slow streams at once (Hold), or a single one (Once).
//
// In the flow of a benchmark it is the caller. Its client is written by hand: its own CPU stays small beside that of
// what is measured, and its timestamps are taken at the socket. It talks to loopback addresses only.
package load
