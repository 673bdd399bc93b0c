// Package story tells the founding case from beginning to end, against a running stack, and checks each sentence of it: a
// GPU becomes busy, traffic spills over and sticks, comes back by itself, a player pins it away for an evening, and
// neither a stopped manager nor a stopped API server changes any of that.
//
// `make demo` prints it for people to read; the test of this package runs the same steps as a suite. There is one telling, so the two
// cannot differ.
package story
