// Package stack runs a whole Spillway on this machine, as real processes: etcd and kube-apiserver, the manager, any
// number of proxies, and simulated backends, each under exactly the identity and the roles that it has in a cluster.
//
// It is what `make run`, `make demo` and the suites of real processes stand on. Everything listens on loopback, writes its log
// into one folder, and ends when the stack is stopped.
package stack
