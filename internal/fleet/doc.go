// Package fleet connects one proxy to the API server, and through it to the manager and the other proxies.
//
// Downwards it watches the 32 Secrets of the routing table, each by name, and puts what it decodes into a table.Store.
// Upwards it keeps the proxy's own ProxyReport. Sideways it watches the ProxyReports of its namespace, hands newer
// evidence to the breakers and tells breakers and limits which proxies are live.
//
// Nothing here is on the way of a request: when the API server is gone, the proxy serves the last table with its own
// memory and its last known share of the limits, and this package catches up after the server's return.
package fleet
