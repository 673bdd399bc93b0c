// Package api tests the API as a cluster serves it, on a real kube-apiserver: the CRDs install, each rule of the schema
// accepts and refuses what it should and says so in a sentence, defaults are shown, columns print, roles allow what they
// should, and the admission policies decide who may pin and who may report. It holds tests only.
//
// Each rule has a file in testdata, by kind. A case is a patch on a valid object: `spec` is merged into its spec, `backend` into
// the first backend of its chain, and `then` into the spec of an update that follows. `message` is part of the refusal.
package api
