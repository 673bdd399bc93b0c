// Package burst measures what an OpenAI-compatible server does with many identical calls at once: how many it admits, how
// it sheds the others, and how long they take. It also says how little such a run proves.
//
// Its place in the flow: kubectl spillway burst-probe asks the person and the route, makes the calls, and prints what
// comes of it. The package knows neither Kubernetes nor a terminal.
package burst
