package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// MaxEvent is the documented cap on the size of one event in bytes: 16 MiB. A larger one ends the stream with
// ErrEventTooLarge, never silently.
const MaxEvent = 16 << 20

const (
	// minRead is the least free space that a read is offered, and the size of the first buffer.
	minRead = 2 << 10
	// keepCap is the largest buffer that outlives the event that needed it: a held stream must stay small.
	keepCap = 64 << 10
)

// Errors of a Scanner.
var (
	// ErrEventTooLarge says that one event, or one line, passed the cap.
	ErrEventTooLarge = errors.New("sse: event larger than the cap")
	// ErrCut says that the stream ended within an event whose data is not whole.
	ErrCut = errors.New("sse: stream ended within an event")
)

var (
	bom  = []byte("\xef\xbb\xbf")
	done = []byte("[DONE]")
	null = []byte("null")
)

// Event is one event with a payload. Its slices point into the Scanner's buffers and are valid until the next call of
// Fill, Feed, Next, Size or Flush.
type Event struct {
	// Raw is what goes on to the caller: the event's lines as they came, each ended by LF, without comments, id and
	// retry lines, ended by exactly one empty line.
	Raw []byte
	// Data is the payload: the values of the data lines joined by LF, each without one leading space. It is never
	// blank and never the word null.
	Data []byte
	// Name is the value of the last event line; empty where there was none.
	Name []byte

	dataAt int // where Data begins in Raw; -1 if it was joined from several lines
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
type Scanner struct {
	max int
	err error

	// buf[start:kept] holds the lines of the current event that are kept, already in the form that goes on. What
	// comes next is buf[read:], in which there is no line end before seek. kept never passes read, so that events
	// are put into shape in place: bytes only ever go away.
	buf                     []byte
	start, kept, read, seek int

	begun  bool // the place of a byte order mark has passed
	skipLF bool // the last line ended with CR: an LF that follows belongs to it
	sawCR  bool // such streams are searched byte by byte, see lineEnd

	data  span // of the last data line, from start
	name  span // of the last event line, from start
	lines int  // data lines in the current event
	multi []byte
}

type span struct{ from, to int }

// NewScanner returns a Scanner whose events hold at most max bytes; 0 means MaxEvent.
func NewScanner(max int) *Scanner { return &Scanner{max: max} }

// Fill reads once from r straight into the Scanner's buffer and returns what r returned.
func (s *Scanner) Fill(r io.Reader) (int, error) {
	s.compact()
	if s.buf == nil {
		s.buf = make([]byte, 0, minRead)
	}
	// A half-received event may fill the buffer; doubling keeps the copying linear.
	if cap(s.buf)-len(s.buf) < minRead/2 {
		s.buf = slices.Grow(s.buf, max(minRead, len(s.buf)))
	}
	n, err := r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	return n, err
}

// Feed adds a copy of p.
func (s *Scanner) Feed(p []byte) {
	s.compact()
	s.buf = append(s.buf, p...)
}

// Next returns the next whole event, or false when more bytes are needed or the Scanner has failed, see Err.
func (s *Scanner) Next() (Event, bool) {
	for s.err == nil {
		from, to, ok := s.nextLine()
		if !ok {
			break
		}
		if from < to {
			s.keep(from, to)
			continue
		}
		if ev, ok := s.endEvent(); ok {
			return ev, true
		}
	}
	return Event{}, false
}

// Err returns ErrEventTooLarge once an event has passed the cap, else nil. It stays.
func (s *Scanner) Err() error { return s.err }

// Flush is for the end of the stream, after Next has returned false. An event that lacks only its blank line is
// returned if its data is whole, which means JSON or [DONE]; an event that is not whole is ErrCut; false and nil say
// that nothing was pending. The Scanner is empty afterwards.
func (s *Scanner) Flush() (Event, bool, error) {
	if s.err != nil {
		return Event{}, false, s.err
	}
	tail := s.buf[s.read:]
	cut := len(tail) > 0 && !droppedLine(tail)
	if cut && !carriesData(tail) {
		s.buf = s.buf[:s.read] // half a field: its name or value would be wrong
		s.seek = s.read
	}
	s.begun = true
	s.buf = append(s.buf, "\n\n"...)
	ev, ok := s.Next()
	err := s.err
	*s = Scanner{max: s.max, err: err}
	switch {
	case err != nil:
		return Event{}, false, err
	case ok && !bytes.Equal(ev.Data, done) && !json.Valid(ev.Data), !ok && cut:
		return Event{}, false, ErrCut
	default:
		return ev, ok, nil
	}
}

// Pending returns the number of bytes held of an event that is not whole yet; 0 at an event boundary.
func (s *Scanner) Pending() int { return s.kept - s.start + len(s.buf) - s.read }

// Size returns the bytes of memory that the Scanner keeps until the next Fill. Like that it makes all events invalid.
func (s *Scanner) Size() int {
	s.compact()
	return cap(s.buf) + cap(s.multi)
}

// compact moves what is still needed to the front of the buffer. All events handed out become invalid.
func (s *Scanner) compact() {
	if s.start == 0 && s.kept == s.read {
		return
	}
	s.seek -= s.read
	s.kept = copy(s.buf, s.buf[s.start:s.kept])
	rest := copy(s.buf[s.kept:], s.buf[s.read:])
	s.buf = s.buf[:s.kept+rest]
	s.start, s.read = 0, s.kept
	s.seek += s.read
	if len(s.buf) == 0 && cap(s.buf) > keepCap {
		s.buf = nil
	}
	if s.lines == 0 && cap(s.multi) > keepCap {
		s.multi = nil
	}
}

// nextLine consumes one line and returns its range without the line end.
func (s *Scanner) nextLine() (from, to int, ok bool) {
	if !s.begin() {
		return 0, 0, false
	}
	end := s.lineEnd()
	if s.kept-s.start+end-s.read > s.limit() {
		*s = Scanner{max: s.max, err: ErrEventTooLarge}
		return 0, 0, false
	}
	s.seek = end
	if end == len(s.buf) {
		return 0, 0, false
	}
	from = s.read
	s.skipLF = s.buf[end] == '\r'
	s.read, s.seek = end+1, end+1
	return from, end, true
}

// begin steps over what may stand before a line: a byte order mark at the start of the stream, the LF of a CR LF.
func (s *Scanner) begin() bool {
	if !s.begun {
		head := s.buf[s.read:]
		if len(head) < len(bom) && bytes.HasPrefix(bom, head) {
			return false
		}
		if bytes.HasPrefix(head, bom) {
			s.read += len(bom)
		}
		s.begun = true
	}
	if s.skipLF && s.read < len(s.buf) {
		s.skipLF = false
		if s.buf[s.read] == '\n' {
			s.read++
		}
	}
	if s.kept == s.start { // nothing is kept yet: the event begins here, and needs no moving
		s.start, s.kept = s.read, s.read
	}
	s.seek = max(s.seek, s.read)
	return s.read < len(s.buf)
}

// lineEnd returns the position of the next CR or LF, or len(buf).
func (s *Scanner) lineEnd() int {
	rest := s.buf[s.seek:]
	if !s.sawCR {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			end = len(rest)
		}
		if s.sawCR = bytes.IndexByte(rest[:end], '\r') >= 0; !s.sawCR {
			return s.seek + end
		}
	}
	// Once there is a CR, searching for LF first could run over the whole buffer for each short line.
	for i, c := range rest {
		if c == '\n' || c == '\r' {
			return s.seek + i
		}
	}
	return len(s.buf)
}

func (s *Scanner) limit() int {
	if s.max > 0 {
		return s.max
	}
	return MaxEvent
}

// keep adds the line buf[from:to] to the current event, unless it is one of those that do not go on.
func (s *Scanner) keep(from, to int) {
	line := s.buf[from:to]
	if droppedLine(line) {
		return
	}
	at := s.kept - s.start
	if s.kept != from {
		copy(s.buf[s.kept:], line)
	}
	s.buf[s.kept+len(line)] = '\n'
	s.kept += len(line) + 1

	line = s.buf[s.start+at : s.kept-1]
	if v, ok := fieldValue(line, "data"); ok {
		s.addData(span{at + len(line) - len(v), at + len(line)})
	} else if v, ok := fieldValue(line, "event"); ok {
		s.name = span{at + len(line) - len(v), at + len(line)}
	} else if v, ok := fieldValue(line, errorField); ok && len(v) > 0 && v[0] == '{' {
		s.name = span{at, at + len(errorField)}
		s.addData(span{at + len(line) - len(v), at + len(line)})
	}
}

func (s *Scanner) addData(value span) {
	switch s.lines++; s.lines {
	case 1:
		s.data = value
		return
	case 2:
		s.multi = append(s.multi[:0], s.at(s.data)...)
	}
	s.multi = append(s.multi, '\n')
	s.multi = append(s.multi, s.at(value)...)
}

func (s *Scanner) at(p span) []byte { return s.buf[s.start+p.from : s.start+p.to] }

// endEvent closes the current event at its empty line and returns it if it has a payload.
func (s *Scanner) endEvent() (Event, bool) {
	ev := Event{Name: s.at(s.name), Data: s.at(s.data), dataAt: s.data.from}
	if s.lines > 1 {
		ev.Data, ev.dataAt = s.multi, -1
	}
	if s.kept > s.start {
		s.buf[s.kept] = '\n'
		ev.Raw = s.buf[s.start : s.kept+1 : s.kept+1]
	}
	ok := s.lines > 0 && hasPayload(ev.Data)
	s.start, s.kept = s.read, s.read
	s.data, s.name, s.lines = span{}, span{}, 0
	return ev, ok
}

func hasPayload(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && !bytes.Equal(data, null)
}

// errorField is no field of the standard, which ignores it. Servers of llama.cpp put the error in it that ends their stream; it
// is taken for an event of that name.
const errorField = "error"

// droppedLine says whether a line never goes on: comments, and the fields that would make the caller's client
// reconnect to the proxy on the backend's terms.
func droppedLine(line []byte) bool {
	if line[0] == ':' {
		return true
	}
	if line[0] != 'i' && line[0] != 'r' {
		return false
	}
	_, id := fieldValue(line, "id")
	_, retry := fieldValue(line, "retry")
	return id || retry
}

// carriesData says whether a line without its end may be whole all the same: its data tells.
func carriesData(line []byte) bool {
	return bytes.HasPrefix(line, []byte("data:")) || bytes.HasPrefix(line, []byte(errorField+":"))
}

// fieldValue returns the value of a line if it is of that field: behind the colon, without one leading space. A line
// of the name alone has an empty value.
func fieldValue(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	rest := line[len(name):]
	switch {
	case len(rest) == 0:
		return rest, true
	case rest[0] != ':':
		return nil, false
	case len(rest) > 1 && rest[1] == ' ':
		return rest[2:], true
	default:
		return rest[1:], true
	}
}
