// Package standalone runs a proxy from a folder of manifests, without a cluster.
//
// Its place in the flow: it takes the place of the manager and of internal/fleet. It reads the same YAML kinds from files
// (LLMRoute, BackendPin, Secret, ConfigMap, Service), runs the same compiler in-process, and swaps the table into the
// proxy's store. It watches the folder and does so again when a file changes.
//
// Where a cluster has an API server, files have none, so a mistake is a message with file and line, and never costs more
// than its own document: while a file holds a document that cannot be read, what the file said before and no longer says
// stays in force.
package standalone
