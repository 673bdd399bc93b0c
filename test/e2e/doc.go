// Package e2e holds the suite of the control plane as somebody sees it who has kubectl and sends traffic: a whole stack of real
// processes, see test/stack, that its specs share. The founding case is in test/story.
package e2e
