// Package e2e holds the suites that run against a whole stack of real processes, see test/stack: the founding case
// (test/story), and the control plane seen by somebody who has kubectl and sends traffic. They share one stack each.
package e2e
