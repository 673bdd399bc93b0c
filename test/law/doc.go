// Package law enforces the architecture in tests: which package may import which, that pure code reads no clock, how long a
// file may be, and that no test sleeps. It has no place in any flow; nothing imports it.
//
// The rules read what "go list -deps" says about the packages as they are built, so that an import through a third package
// counts too, and a broken rule is reported with the chain of imports that breaks it.
package law
