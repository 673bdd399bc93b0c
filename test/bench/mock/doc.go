// Package mock is the backend of the benchmarks: it answers at once, at little cost, and as the model's name says. (The
// backend of the stories, hack/simbackend, has modes that are switched while it runs, and does not need to be fast.)
//
// The last part of the model's name, behind any slash, chooses the answer:
//
//	unary         a completion of about 1 KB
//	s<N>x<ms>     for stream: true, a role chunk, N chunks of content, one every <ms> milliseconds, finish, usage, [DONE]
//	no-headers    takes the request and says nothing
//	headers-only  a stream that says nothing after its header
//	role-only     a stream that says nothing after its role chunk
//	comments      a stream of comments, one every 100 ms
package mock
