// Package admission decides when a request may go on: rate limits per route and queues for backends with few slots.
//
// Limits are declared for the fleet; each proxy enforces its share by the number of live proxies. Buckets are keyed by
// route, slots by backend id, and both outlive table swaps.
package admission
