// Command localkube builds and starts a real Kubernetes control plane (etcd, kube-apiserver, kubectl) from Go modules:
// no cluster, no container engine, no download from anywhere but the Go module proxy.
//
// Its place in the flow: make run, make demo and the suites ask it for a directory of binaries (KUBEBUILDER_ASSETS, the
// layout that controller-runtime's envtest expects) and start them themselves; "up" is for a person who wants a bare API
// server. It is a module of its own, so that the dependencies of Kubernetes never touch the product's go.mod; its own
// code uses the standard library only. Beside it the module hyper is a whole node in one program, which nothing but
// test/cluster waits for.
//
//	go run -C hack/localkube . assets        build what is missing, print the directory on stdout
//	go run -C hack/localkube . node          build hyper for test/cluster, print the directory of its names on stdout
//	go run -C hack/localkube . up [--dir D]  start etcd and kube-apiserver on loopback until interrupted
//	go run -C hack/localkube . clean         remove what older versions left in the cache
//
// One invocation takes these steps: recipe.go says what is to be built and hashes it into a key; cache.go keeps one
// directory per key with a manifest that proves it complete; assets.go builds, under a lock, what the manifest lacks;
// build.go runs one "go build"; progress.go tells the person who waits.
package main
