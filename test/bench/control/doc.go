// Command control measures the control plane at the scale that it is planned for, on this machine, and writes its table into
// docs/benchmarks.md. See there for the method.
//
//	make bench-control
//	go run ./test/bench/control -routes 1000 -pins 100 -reports 20 -doc ""
//
// What is measured runs as real processes (test/stack): etcd, kube-apiserver, the manager and two proxies. This program is the
// administrator who edits, the callers, the backends, and the other proxies as far as the manager sees them: their reports.
package main
