// Package fleet tests what several proxies and managers do together: five proxies under one manager, a real API server, real
// processes. What is slow (FLEET=all) is left to `make test-fleet FLEET=all`.
package fleet
