// Package status says what is written into the status of an LLMRoute and a BackendPin, and which Events tell of it.
//
// Its place in the flow: the compiler judges an object (a verdict), the proxies report what they serve and which
// breakers are open (reports, folded into a Fleet), and this package makes one status of both. internal/controller brings
// the inputs, compares, and writes. The package is pure: it holds no client and reads no clock; the time is an argument.
//
// Each condition has one function that returns a finding, and one table test. What sums up others (Ready, state, serving,
// proxies, chain) is computed from them and never set elsewhere. Nothing in a status changes while nothing happens: times
// that proxies report as "remaining" are held to the stored value while they differ by less than ReportTolerance.
package status
