// Package telemetry declares every metric and builds every log of Spillway, each name once.
//
// It sits beside the flow: the proxy records requests in a Proxy, whoever reads the table and the reports records those
// in a Table, the manager records its compilations in a Manager. All three register with a registry that is handed in, so
// that a binary exposes its own and a test a fresh one. Label values come from the table only: nothing that a caller
// invents becomes a series, and the series of routes and backends that left the table are deleted.
//
// Traces do not exist yet. The proxy's record stage knows all that a span needs when a request has ended.
package telemetry
