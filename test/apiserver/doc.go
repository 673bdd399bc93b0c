// Package apiserver gives the Ginkgo suites a real API server (etcd and kube-apiserver) with Spillway's CRDs, and creates the
// manifests of config/ in it.
//
// Its place in the flow: test/api, test/controller and the apitest packages call it from BeforeSuite. Its functions fail the suite
// and return no errors. Suites of whole processes use test/stack.
package apiserver
