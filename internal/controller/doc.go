// Package controller is where Spillway meets the API server on the manager's side, and the only package there that holds
// a client. It is thin: it reads, has the compiler and internal/status decide, and writes.
//
// Its place in the flow, in the order of the data:
//
//	world      what the informers say: routes, pins, Services whole; Secrets and ConfigMaps by resourceVersion only
//	fetcher    the Secrets and ConfigMaps that routes name, read once per resourceVersion
//	compiling  bursts of changes become one compile: table, shards, verdicts
//	publisher  changed shards become Secrets; the ledger notes which generation they hold
//	reports    what the proxies say, and which of them are alive by our own clock
//	owner, lock  what is written in our own namespace, the lease too, belongs to the manager's Deployment and goes with it
//	routes, pins  one reconciler per kind that writes status, tells Events and ends what is over
//
// Every replica compiles and counts, so that a new leader knows at once; only the leader writes, apart from the salt,
// which whoever comes first creates. Nothing here decides what a status says or what a table holds.
package controller
