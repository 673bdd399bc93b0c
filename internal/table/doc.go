// Package table holds the routing table: what the compiler writes and a proxy serves from.
//
// It is the one place where the control plane and the data plane meet, downwards: the compiler builds a Table out of
// manifests, the manager publishes it in shards, a proxy decodes the shards and swaps the finished, immutable table in.
// Everything in it is resolved: defaults applied, credentials read, references followed, time absolute. Nothing in it
// refers to Kubernetes, and the package uses the standard library alone.
package table
