// Command kubectl-spillway is a plugin of kubectl: on the PATH it is `kubectl spillway`. It is wiring only; the commands
// are in internal/plugin. A link to it named kubectl_complete-spillway gives kubectl its completion.
package main
