// Package compiler turns manifests into the routing table and the verdict on every object, in one pass, so that the two
// cannot disagree.
//
// Its place in the flow: informers (or, standalone, files) fill a Snapshot; Compile returns a Result; the Result's Table
// goes to the proxies in shards (Result.Shards), its verdicts go to internal/status. The package is a function: values in,
// values out. It holds no client, reads no clock, logs nothing and returns no error: a user's mistake is a Problem on one
// object, and never stops another object.
//
// What a mistake costs: a mistake within one backend leaves that backend out while the rest of the chain serves; a mistake
// at the route leaves the route in the table without backends, so that its callers are told that the model exists and
// cannot be served, and no other route inherits its callers. A route that lost its model to another is not in the table.
//
// Constant defaults are those of v1alpha1.LLMRoute.Default, the same ones that the API server applies from the CRD; they
// are applied to every object, because files, and stored objects that are older than a field, have none. Derived ones
// are computed here, in policy.go.
package compiler
