package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// piped is a listener without a network, so that a test has the time of its bubble.
type piped struct {
	conns chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newPiped() *piped { return &piped{conns: make(chan net.Conn), ended: make(chan struct{})} }

func (l *piped) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

func (l *piped) Addr() net.Addr { return &net.TCPAddr{} }

// dial returns a caller's end of a connection, or nil where nobody listens.
func (l *piped) dial() net.Conn {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near
	case <-l.ended:
		return nil
	}
}

// steps are when what happened, counted from a drain's beginning.
type steps struct{ ListenerCloses, StreamEnds, Done time.Duration }

// drained drains a server that serves one request, in a bubble.
func drained(t *testing.T, cfg Config, handler func(ctx context.Context)) steps {
	var got steps
	began := time.Now()
	running, served := make(chan struct{}), make(chan struct{})
	cfg.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(running)
		handler(r.Context())
		got.StreamEnds = time.Since(began)
		close(served)
	})
	cfg.setDefaults()
	s := &Server{cfg: cfg}
	s.baseContext, s.cancelAll = context.WithCancelCause(t.Context())
	s.data = s.newDataServer()
	ln := newPiped()
	s.dataLn = ln
	var others sync.WaitGroup
	others.Go(func() { _ = s.data.Serve(ln) })
	conn := ln.dial()
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-running
	others.Go(func() {
		<-ln.ended
		got.ListenerCloses = time.Since(began)
	})
	others.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	s.drain()
	got.Done = time.Since(began)
	_ = s.data.Close()
	<-served
	others.Wait()
	return got
}

func TestStepsOfADrainComeInTime(t *testing.T) {
	const delay, timeout = 5 * time.Second, 60 * time.Second
	ready := func() error { return nil }
	cases := map[string]struct {
		ready   func() error
		handler func(ctx context.Context)
		want    steps
	}{
		"a stream that ends by itself":        {ready, func(ctx context.Context) { wait(ctx, 20*time.Second) }, steps{delay, 20 * time.Second, 20*time.Second + maxLinger}},
		"a stream that ends before the delay": {ready, func(ctx context.Context) { wait(ctx, time.Second) }, steps{delay, time.Second, delay + maxLinger}},
		"a stream that does not end: the timeout is counted from the beginning": {ready, func(ctx context.Context) { <-ctx.Done() },
			steps{delay, timeout, timeout}},
		"a handler that hears nothing": {ready, func(context.Context) { wait(context.Background(), time.Hour) },
			steps{delay, time.Hour, timeout + forceGrace}},
		"no delay where nobody was told to come": {func() error { return errors.New("no table") }, func(ctx context.Context) { wait(ctx, time.Second) },
			steps{0, time.Second, time.Second + maxLinger}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{DrainDelay: delay, DrainTimeout: timeout, Log: slog.New(slog.DiscardHandler), Ready: tc.ready}
				got := drained(t, cfg, tc.handler)
				// The server looks for the last request's end at short intervals, net/http for the last connection's at half a second.
				got.StreamEnds, got.Done = got.StreamEnds.Truncate(time.Second/2), got.Done.Truncate(time.Second)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("steps (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// unnoticed is a listener whose end its server hears of only when it closes the listener itself.
type unnoticed struct {
	*piped
	noticed chan struct{}
}

func (l *unnoticed) Accept() (net.Conn, error) {
	conn, err := l.piped.Accept()
	if err != nil {
		<-l.noticed
	}
	return conn, err
}

func (l *unnoticed) Close() error {
	select {
	case <-l.ended:
		close(l.noticed)
		return net.ErrClosed
	default:
		return l.piped.Close()
	}
}

func TestADrainIsNoTimeoutWhereTheListenersEndIsNoticedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := Config{DrainTimeout: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil)), Ready: func() error { return nil }}
		cfg.setDefaults()
		s := &Server{cfg: cfg}
		s.baseContext, s.cancelAll = context.WithCancelCause(t.Context())
		s.data = s.newDataServer()
		ln := &unnoticed{newPiped(), make(chan struct{})}
		s.dataLn = ln
		var serving sync.WaitGroup
		serving.Go(func() { _ = s.data.Serve(ln) })
		synctest.Wait()
		s.drain()
		serving.Wait()
		if !strings.Contains(log.String(), "msg=drained") || strings.Contains(log.String(), "WARN") {
			t.Errorf("the log says:\n%s", log.String())
		}
	})
}
