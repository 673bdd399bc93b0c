// Package fleet tests what several proxies and managers do together: five proxies under one manager, a real API server, real
// processes.
package fleet
