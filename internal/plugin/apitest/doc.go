// Package apitest runs the plugin's commands against a real API server, with the roles and admission policies that a
// cluster has: what is written, what is refused and in which words, and what a watch shows. It holds tests only.
package apitest
