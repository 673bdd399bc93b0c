// Package apiclient makes a proxy's connections to the API server.
//
// Its place in the flow: internal/fleet (table and reports) and internal/callerauth (reviews and keys) each have connections of
// their own from here, so that what waits in one does not hold up the other. They use client-go's REST client alone: a clientset
// would bring the kinds of all of Kubernetes into the proxy.
package apiclient
