// Package oldest has no code, only a test: the CRDs and admission policies of config/ compile on the oldest API server that the
// chart allows. One API server runs here, the newest; what an older one would make of an expression is proved in the CEL
// environment of that version. It is a module of its own: the packages of an API server are not for the
// product's go.mod.
package oldest
