// Command manager is the control plane: it compiles LLMRoutes and BackendPins to the routing table, publishes it for the
// proxies, folds their reports into status, and ends pins that are over. It is wiring only; internal/controller does the
// work.
package main
