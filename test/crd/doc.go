// Package crd holds objects against the CRDs in config/crd as an API server does. It is for the tests of those who write objects: a
// status or a report that breaks one bound is refused whole, and nobody learns anything. It has no place in any flow; only tests
// import it.
package crd
