// Package docs tests what the pages for people claim, without a cluster: links lead somewhere, manifests compile, flags exist,
// Go is an excerpt of an example that runs, and the script of the standalone page serves. It holds tests only.
package docs
