package proxy

import (
	"fmt"
	"net/http"
	"strings"
)

func (p *Proxy) ready(w http.ResponseWriter, _ *http.Request) {
	if err := p.cfg.Ready(); err != nil {
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	say(w, http.StatusOK, "ok")
}

// routeReady answers /readyz/{namespace}/{name}: whether the route exists and has a usable backend by its configuration.
// Breakers have no part in it.
func (p *Proxy) routeReady(w http.ResponseWriter, r *http.Request) {
	route := p.cfg.Store.Load().ByKey(strings.TrimPrefix(r.URL.Path, "/readyz/"))
	switch {
	case route == nil:
		say(w, http.StatusNotFound, "no such route")
	case len(route.Chain) == 0:
		say(w, http.StatusServiceUnavailable, "no usable backend")
	default:
		say(w, http.StatusOK, "ok")
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // an error means that nobody is there
}
