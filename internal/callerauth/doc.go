// Package callerauth says who a caller is and whether it may use a route. It is the stage "authorize" of the pipeline
// (internal/proxy knows it as its Authorizer), which the list of models asks too; without it, everybody who reaches the data
// port is served.
//
// There are two kinds of callers, and one is chosen per process:
//
//   - Kubernetes: the credential is a token that the API server knows, of a ServiceAccount as a rule. A TokenReview says
//     whose it is, a SubjectAccessReview whether that account has the verb "use" on the route. Both verdicts are remembered
//     (memo.go), and kept while the API server does not answer.
//   - Keys: the credential is one of a few static keys, from a Secret or a folder. A key opens every route.
//
// A credential comes as "Authorization: Bearer" or, as Anthropic's clients send it, as "x-api-key". It is never stored,
// logged or passed on: what is remembered of it is a hash.
package callerauth
