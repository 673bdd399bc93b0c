// Package openai knows the dialects that pass through a proxy, and nothing about backends, breakers or HTTP clients.
//
// In the flow it stands beside internal/proxy at both ends of a request. On the way in it finds what decides about a
// request (model, stream) without decoding the rest, and splices the physical model name in. On the way out it judges
// answers: a status, a body or one stream event becomes facts (Answer, BodyFacts, EventFacts) in the words of the
// outcome table; which attempt follows is the proxy's to decide. It also holds the closed set of error codes and
// renders errors, model lists, and the conversions between a JSON completion and a stream of chunks.
//
// All of it is pure: time is an argument, bytes outside a spliced value are never changed.
package openai
