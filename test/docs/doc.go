// Package docs tests what the pages for people claim, without a cluster: links lead somewhere, manifests compile, flags exist,
// and Go in a page is an excerpt of an example that runs. It holds tests only.
package docs
