// Command bench measures bin/proxy beside nginx and a bare httputil.ReverseProxy that reads the request body first, in
// one run, on this machine, over loopback, and writes the table of docs/benchmarks.md. See there for the method.
//
//	make bench
//	go run ./test/bench -only unary,streams -repeats 1 -doc ""
//
// It is the caller (package load). Everything else runs as processes that it starts and ends: the mock backends (package
// mock) and the reverse proxy are this program again, by the first argument; nginx is taken from the PATH, and where there
// is none the run goes on without it.
package main
