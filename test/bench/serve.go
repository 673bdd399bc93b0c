package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/test/bench/mock"
)

// servers are what this program is when its first argument says so. Each serves until its standard input ends, which it
// does with the harness.
var servers = map[string]func(args []string) error{
	"serve-mock": func(args []string) error {
		if len(args) != 1 {
			return errors.New("usage: bench serve-mock ADDR")
		}
		return serve(args[0], new(mock.Backend))
	},
	"serve-base": func(args []string) error {
		if len(args) != 2 {
			return errors.New("usage: bench serve-base ADDR BACKEND")
		}
		return serve(args[0], base(args[1]))
	},
}

func serve(addr string, handler http.Handler) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// base is what Go's own reverse proxy costs. It reads the request body first: without that, it breaks streams whose answer
// begins before the body was read (golang/go#40747), and is no proxy that one could use.
func base(backend string) http.Handler {
	target := &url.URL{Scheme: "http", Host: backend}
	buffers := &bufferPool{sync.Pool{New: func() any { return make([]byte, 32<<10) }}}
	proxy := &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 4096, IdleConnTimeout: 90 * time.Second, DisableCompression: true},
		BufferPool: buffers,
		ErrorLog:   log.New(io.Discard, "", 0),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "body not readable", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// bufferPool implements httputil.BufferPool.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte  { return p.pool.Get().([]byte) }
func (p *bufferPool) Put(b []byte) { p.pool.Put(b) } //nolint:staticcheck // a pointer would be allocated in its place
