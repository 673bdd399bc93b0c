// Package apitest holds no code: its tests run internal/fleet against a real kube-apiserver, under exactly the Role and the
// admission policy that the proxies get. It is a package of its own so that the unit tests need no API server.
package apitest
