package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/net/netutil"

	"github.com/spillway-dev/spillway/internal/nonblock"
)

// Server owns the two listeners of a proxy. New binds them, Run serves and drains.
type Server struct {
	cfg         Config
	data, adm   *http.Server
	dataLn      net.Listener
	admLn       net.Listener
	dataAddr    net.Addr
	draining    atomic.Bool
	running     atomic.Int64 // requests on the data port
	lateAnswers atomic.Int64 // answers that ended while draining and had begun before, so that they did not say so
	cancelAll   context.CancelCauseFunc
	baseContext context.Context // parent of every request on the data port
}

// New validates the configuration and binds both addresses, so that a port in use is an error at start. Run must follow:
// it closes what New opened.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	s := &Server{cfg: cfg}
	s.baseContext, s.cancelAll = context.WithCancelCause(context.Background())
	s.data = s.newDataServer()
	s.adm = newHTTPServer(s.admin(), &s.cfg)
	if cfg.TLSCert != "" {
		pair, err := newKeyPair(cfg.TLSCert, cfg.TLSKey, cfg.Log)
		if err != nil {
			return nil, err
		}
		s.data.TLSConfig = pair.config()
	}
	var err error
	if s.dataLn, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("cannot listen for callers (--listen): %w", err)
	}
	s.dataAddr = s.dataLn.Addr()
	s.dataLn = netutil.LimitListener(nonblock.Listener{Listener: s.dataLn}, cfg.MaxConnections)
	if s.admLn, err = net.Listen("tcp", cfg.AdminListen); err != nil {
		_ = s.dataLn.Close()
		return nil, fmt.Errorf("cannot listen for health and metrics (--admin-listen): %w", err)
	}
	return s, nil
}

// Addr is the bound address of the data port.
func (s *Server) Addr() string { return s.dataAddr.String() }

// AdminAddr is the bound address of the admin port.
func (s *Server) AdminAddr() string { return s.admLn.Addr().String() }

// Run serves until ctx ends, then drains as the package comment says, and returns when all is closed. The error is that
// of a listener that failed; a drain that had to cut requests is not an error.
func (s *Server) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- s.serveData() })
	serving.Go(func() { failed <- s.adm.Serve(s.admLn) })

	var err error
	select {
	case <-ctx.Done():
		s.drain()
	case err = <-failed:
		err = fmt.Errorf("a listener failed: %w", err)
		s.draining.Store(true)
	}
	s.cancelAll(ErrShutdown)
	// Health and metrics stay to the end: a drain is watched.
	_ = errors.Join(s.data.Close(), s.adm.Close())
	serving.Wait()
	s.awaitHandlers()
	return err
}

func (s *Server) serveData() error {
	if s.data.TLSConfig != nil {
		return s.data.ServeTLS(s.dataLn, "", "")
	}
	return s.data.Serve(s.dataLn)
}

// newDataServer builds the data port, outermost stage first.
func (s *Server) newDataServer() *http.Server {
	handler := s.cfg.Handler
	handler = dropSlowBodies(handler, s.cfg.bodyStall)
	handler = limitFields(handler)
	handler = s.closeWhileDraining(handler)
	handler = s.track(handler)

	srv := newHTTPServer(handler, &s.cfg)
	srv.BaseContext = func(net.Listener) context.Context { return s.baseContext }
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{WriteByteTimeout: s.cfg.writeStall}
	return srv
}

func newHTTPServer(h http.Handler, cfg *Config) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: cfg.readHeader,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Callers that go away or fail a handshake are everyday; the pipeline reports what matters.
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
}

// track counts running requests, so that Run can wait for those that were cut to say so in the logs.
func (s *Server) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.Add(1)
		defer s.running.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// limitFields refuses headers of very many fields, as net/http refuses those of very many bytes.
func limitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			fields += len(values)
		}
		if fields > maxHeaderFields {
			w.Header().Set("Connection", "close")
			const status = http.StatusRequestHeaderFieldsTooLarge
			http.Error(w, fmt.Sprintf("%d %s", status, http.StatusText(status)), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// closeWhileDraining ends connections with the answer that they carry, so that callers find another proxy. HTTP/2
// connections get a GOAWAY by the same header.
func (s *Server) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		} else {
			defer func() {
				if s.draining.Load() {
					s.lateAnswers.Add(1)
				}
			}()
		}
		next.ServeHTTP(w, r)
	})
}
