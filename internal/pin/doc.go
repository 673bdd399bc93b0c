// Package pin evaluates a route's pins at one instant: which are active, how they order the chain, what they rest.
//
// It is pure and has one answer for all who ask: the plan orders by it, the breaker sends no probe to what it rests, and
// status shows it.
package pin
