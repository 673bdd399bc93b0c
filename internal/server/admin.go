package server

import (
	"errors"
	"fmt"
	"net/http"
)

// admin serves liveness, readiness, metrics and, where there is one, the page of status; its root names them. Health says nothing
// of backends: their trouble never makes the process unready. The pipeline serves the same health on the data port, from Ready.
func (s *Server) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Ready(); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	mux.Handle("GET /metrics", s.cfg.Metrics)
	paths := "/healthz\n/readyz\n/metrics"
	if s.cfg.Status != nil {
		mux.Handle("GET /statusz", s.cfg.Status)
		paths += "\n/statusz"
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, paths) })
	return mux
}

// Ready returns nil when the process may get traffic: it does not drain, and Config.Ready has no objection. Else it says why
// not.
func (s *Server) Ready() error {
	if s.draining.Load() {
		return errors.New("draining")
	}
	return s.cfg.Ready()
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}
