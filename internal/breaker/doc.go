// Package breaker holds what a proxy knows about its backends: evidence, state and recovery, one breaker per backend id.
//
// It sits between the plan and the attempt. The plan asks View which backends may be used now; an attempt asks Admit for
// a Permit and gives it back with the Result it ended in. Results move the breaker; Run asks an open backend for one
// token when its cooldown is over; Records and Adopt carry evidence from and to the other proxies of the fleet. State is
// keyed by backend id and outlives table swaps: Apply takes a new table's thresholds and drops only what no route names.
//
// All time inside is monotonic. Wall time appears at the edge alone: since in records, and the start and end of pins.
// What we call a breaker, Envoy calls outlier detection.
package breaker
