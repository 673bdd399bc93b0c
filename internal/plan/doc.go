// Package plan orders a route's chain for one request: the caller's hint, then pins, then context windows, then breakers.
//
// It is pure and shared by all who ask "which backend now?": the proxy for each request, status for `serving`, and the
// `explain` command. Callers pass the time and a function that tells each backend's breaker.
package plan
