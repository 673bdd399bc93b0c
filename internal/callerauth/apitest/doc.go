// Package apitest holds no code: its tests run internal/callerauth behind the pipeline and against a real kube-apiserver, under
// exactly the roles that config/caller-auth gives a proxy. It is a package of its own so that the unit tests need no API
// server.
package apitest
