// Package plugin holds the commands of kubectl-spillway, one file each: what a person at a terminal asks of a running
// Spillway, with the person's own permissions.
//
// Its place in the flow: it reads LLMRoutes and BackendPins, writes BackendPins, and speaks to the proxies' data port as
// any caller does. What it tells about a plan comes from internal/compiler and internal/plan, the same code that the
// manager and the proxies run. It shows no host and no credential: of a route it reads the status, and of Secrets nothing.
//
// A command is a struct with its flags and a run method. It gets what it needs from an Env: streams, clock, zone and,
// once it asks, a client of the API server. Errors are sentences; an error of the API server is shown as it is.
package plugin
