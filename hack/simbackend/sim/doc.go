// Package sim is a simulated OpenAI-compatible backend, for tests, the demo and by hand; never a part of the product.
//
// It stands where a model server stands: behind a proxy, as the url of a chain's entry. Command simbackend serves it as a
// process, tests start it with Start or mount a Backend as an http.Handler.
//
//	POST /v1/chat/completions  an answer of N tokens that carry the backend's name, streamed or whole, or whatever the mode says
//	POST /v1/completions, /v1/responses, /v1/messages, /v1/embeddings: the same, each in its own dialect
//	GET  /v1/models            the one model; answers while the backend is busy, as real ones do
//	GET  /health               200 in every mode: capacity is not health
//	POST /mode                 switch; the mode is the body or ?mode=; GET says which one is on
//	GET  /stats                Stats as JSON
//	POST /stats/reset          zero the counts; what is in flight stays
//
// A request keeps the mode that was on when it arrived. One that hangs in a busy mode therefore hangs until its caller
// leaves, also when the backend has become idle meanwhile: a graphics card that is free again does not come back for
// requests that it had swallowed.
package sim
