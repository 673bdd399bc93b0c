package server

import (
	"context"
	"errors"
	"time"
)

// drain takes the data port down, see the package comment. It returns after at most DrainTimeout + forceGrace.
func (s *Server) drain() {
	began := time.Now()
	s.draining.Store(true)
	if s.cfg.OnDrain != nil {
		s.cfg.OnDrain()
	}
	s.cfg.Log.Info("draining", "delay", s.cfg.DrainDelay.String(), "timeout", s.cfg.DrainTimeout.String())
	if s.cfg.Ready() == nil { // else nobody was told to send work here
		<-s.cfg.after(s.cfg.DrainDelay)
	}

	running, cancel := context.WithDeadline(context.Background(), began.Add(s.cfg.DrainTimeout))
	defer cancel()
	_ = s.dataLn.Close() // connections stay
	s.linger(running)
	// Another error is that of closing the listener twice, where net/http has not noticed yet that it is closed.
	if err := s.data.Shutdown(running); !errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Info("drained", "took", time.Since(began).Round(time.Millisecond).String())
		return
	}
	s.cfg.Log.Warn("drain timeout: the remaining requests are ended", "timeout", s.cfg.DrainTimeout.String())
	s.cancelAll(ErrShutdown)
	lastWords, cancel := context.WithTimeout(context.Background(), forceGrace)
	defer cancel()
	if err := s.data.Shutdown(lastWords); errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Warn("requests were cut: a backend or a caller does not respond", "grace", forceGrace.String())
	}
}

// linger waits until every caller with an open connection has had a chance to learn of the end. An answer that began before
// the drain could not say "Connection: close". Were its connection closed the moment it is complete, a caller who sends
// the next request at once would be cut off; so for a while after the last such answer (the drain delay, at most maxLinger),
// connections serve one more request.
func (s *Server) linger(ctx context.Context) {
	const pause = 20 * time.Millisecond
	wait, seen := min(s.cfg.DrainDelay, maxLinger), int64(0)
	for ctx.Err() == nil {
		ended := s.lateAnswers.Load()
		switch {
		case s.running.Load() > 0:
			time.Sleep(pause)
		case ended == seen:
			return
		default:
			seen = ended
			select {
			case <-s.cfg.after(wait):
			case <-ctx.Done():
			}
		}
	}
}

// awaitHandlers gives the handlers of closed connections a moment to return, so that their last records are written.
// net/http does not wait for them.
func (s *Server) awaitHandlers() {
	const pause = 5 * time.Millisecond
	for waited := time.Duration(0); s.running.Load() > 0 && waited < forceGrace; waited += pause {
		time.Sleep(pause)
	}
}
