// Package telemetry declares every metric, builds every log and makes every span of Spillway, each name once.
//
// It sits beside the flow: the proxy records requests in a Proxy, whoever reads the table and the reports records those
// in a Table, the manager records its compilations in a Manager. All three register with a registry that is handed in, so
// that a binary exposes its own and a test a fresh one. Label values come from the table only: nothing that a caller
// invents becomes a series, and the series of routes and backends that left the table are deleted.
//
// Spans are made by a Tracer, which is nil while tracing is off: then nothing is made and nothing is paid. How they leave
// the process is the business of the package otlp below this one.
package telemetry
