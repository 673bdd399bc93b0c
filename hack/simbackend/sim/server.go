package sim

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// Server is a Backend that listens.
type Server struct {
	*Backend
	URL  string // http://host:port, without /v1
	http *http.Server
	done chan error // what serving ended with
}

// Start serves a new backend on addr ("127.0.0.1:0" is any free port of loopback).
func Start(config Config, addr string) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	backend := New(config)
	s := &Server{
		Backend: backend,
		URL:     "http://" + listener.Addr().String(),
		http:    &http.Server{Handler: backend, ReadHeaderTimeout: 10 * time.Second},
		done:    make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(listener) }()
	return s, nil
}

// Close stops listening and cuts every connection, answers in progress included. It must be called once.
func (s *Server) Close() error {
	s.Backend.Close()
	err := s.http.Close()
	if serveErr := <-s.done; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}
