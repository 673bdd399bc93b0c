// Command proxy is the data plane: it serves callers from the routing table that the manager publishes (internal/fleet),
// or from a folder of manifests without any cluster (internal/standalone). It is wiring only: flags.go reads the flags,
// source.go chooses where the table comes from and callers.go who may call, run.go puts the parts together and takes them
// down again.
package main
