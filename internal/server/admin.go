package server

import (
	"fmt"
	"net/http"
)

// health serves liveness and readiness. It says nothing of backends: their trouble never makes the process unready.
func (s *Server) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.ready(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	if s.cfg.RouteReady != nil {
		mux.HandleFunc("GET /readyz/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
			switch s.cfg.RouteReady(r.PathValue("namespace"), r.PathValue("name")) {
			case RouteUsable:
				say(w, http.StatusOK, "ok")
			case RouteUnusable:
				say(w, http.StatusServiceUnavailable, "no usable backend")
			default:
				say(w, http.StatusNotFound, "no such route")
			}
		})
	}
	return mux
}

func (s *Server) admin() http.Handler {
	mux := s.health()
	mux.Handle("GET /metrics", s.cfg.Metrics)
	return mux
}

func (s *Server) ready() error {
	if s.draining.Load() {
		return fmt.Errorf("draining")
	}
	return s.cfg.Ready()
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
