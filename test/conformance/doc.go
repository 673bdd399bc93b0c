// Package conformance attacks the real proxy, promise by promise of the request path, the wire and the breakers:
// built with the race detector, run without a cluster, called over raw sockets, in front of backends on raw sockets that
// do what a script says (send, pause, cut, reset). What is asserted are bytes and who was asked.
//
// One process serves all tests. Each test adds a route of its own, which is a reload under the running requests of all the
// others. What one package can prove alone is proven there; here is what needs all of them together.
package conformance
