// Command image packs programs into container images without a container runtime: one file for each, an OCI layout in a tar,
// with the manifest.json beside it that `docker load` reads. `make image` builds the programs and runs it.
//
// There is an image for each program, FROM scratch: a proxy carries no code that writes to a cluster, and what a scanner says
// of one is about that one. An image holds one static binary and runs it as user 65532. Certificate authorities are compiled
// into the proxy. Times are fixed, so that the same binary gives the same bytes everywhere.
package main
