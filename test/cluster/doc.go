// Package cluster proves the chart and the images on a whole node with real Pods: what probes, Services, rollouts, Pod
// Security, garbage collection and drains do to them. Suites that need only an API server are in test/chart and test/e2e.
//
// `make test-cluster` builds everything and runs it; package node starts the node. The parts of a release's life follow each
// other on one node, each on what the part before left.
package cluster
