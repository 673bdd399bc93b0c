// Package commands runs the commands of the pages: what a shell block says, or a line that begins with "$ ", is run against a
// stack of real processes, so that a wrong flag, name or path in a page fails here.
//
// rules.go says which commands cannot act here, each with its reason. Most of those are still asked for their --help, after
// which an unknown flag is an error, too. It is run by `make test-e2e`. The outputs that pages show are those of test/story.
package commands
