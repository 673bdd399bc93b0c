package sse

import (
	"errors"
	"io"
)

// MaxEvent is the documented cap on the size of one event in bytes: 16 MiB. A larger one ends the stream with
// ErrEventTooLarge, never silently.
const MaxEvent = 16 << 20

// Errors of a Scanner.
var (
	// ErrEventTooLarge says that one event, or one line, passed the cap.
	ErrEventTooLarge = errors.New("sse: event larger than the cap")
	// ErrCut says that the stream ended within an event whose data is not whole.
	ErrCut = errors.New("sse: stream ended within an event")
)

// Event is one event with a payload. Its slices point into the Scanner's buffers and are valid until the next call of
// Fill, Feed, Next or Flush.
type Event struct {
	// Raw is what goes on to the caller: the event's lines as they came, each ended by LF, without comments, id and
	// retry lines, ended by exactly one empty line.
	Raw []byte
	// Data is the payload: the values of the data lines joined by LF, each without one leading space. It is never
	// blank and never the word null.
	Data []byte
	// Name is the value of the last event line; empty where there was none.
	Name []byte
}

// Scanner turns bytes, cut anywhere, into events. Blocks without payload (comments, retry, id, empty data, null) are
// skipped. It allocates only while its buffer grows. The zero value is ready and has the cap MaxEvent. A Scanner is
// not safe for concurrent use.
//
//	for {
//		_, readErr := s.Fill(body)
//		for ev, ok := s.Next(); ok; ev, ok = s.Next() {
//			relay(ev)
//		}
//		if err := s.Err(); err != nil { ... }
//		if readErr == io.EOF { last, ok, err := s.Flush() ... }
//	}
type Scanner struct{ Max int }

// NewScanner returns a Scanner whose events hold at most max bytes; 0 means MaxEvent.
func NewScanner(max int) *Scanner { return &Scanner{Max: max} }

// Fill reads once from r straight into the Scanner's buffer and returns what r returned.
func (s *Scanner) Fill(r io.Reader) (int, error) { panic("todo") }

// Feed adds a copy of p.
func (s *Scanner) Feed(p []byte) { panic("todo") }

// Next returns the next whole event, or false when more bytes are needed or the Scanner has failed, see Err.
func (s *Scanner) Next() (Event, bool) { panic("todo") }

// Err returns ErrEventTooLarge once an event has passed the cap, else nil. It stays.
func (s *Scanner) Err() error { panic("todo") }

// Flush is for the end of the stream, after Next has returned false. An event that lacks only its blank line is
// returned if its data is whole, which means JSON or [DONE]; an event that is not whole is ErrCut; false and nil say
// that nothing was pending. The Scanner is empty afterwards.
func (s *Scanner) Flush() (Event, bool, error) { panic("todo") }

// Pending returns the number of bytes held of an event that is not whole yet; 0 at an event boundary.
func (s *Scanner) Pending() int { panic("todo") }
