// Package pin evaluates a route's pins at one instant: which are active, how they order the chain, which backends they rest,
// and when that changes next.
//
// Its place in the flow: the compiler writes the pins into the table; internal/plan orders chains by them, internal/breaker
// sends no probe to a backend that they rest, and internal/status and the plugin show them. It is pure: all who ask get the
// same answer for the same time.
package pin
