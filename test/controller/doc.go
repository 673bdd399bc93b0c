// Package controller tests internal/controller against a real API server: what it publishes and when, what it writes into
// status and how often, what it makes of conflicts, bad objects, dead proxies and pins. The proxies are played by the
// tests, which write their reports.
package controller
