// Package e2e holds the suites that run against a whole stack of real processes, see test/stack.
package e2e
