package stream

import (
	"bytes"
	"encoding/json"
)

const doneData = "[DONE]"

// parser turns bytes into events. Unlike the proxy's scanner it keeps comments, since heartbeats travel in them.
type parser struct {
	max    int
	buf    []byte // what is not consumed yet
	seek   int    // no line end before this position of buf
	begun  bool   // the place of a byte order mark has passed
	skipLF bool   // the last line ended with CR

	name  []byte
	data  []byte
	lines int // data lines of the current event
}

// line consumes one line; false means that more bytes are needed.
func (p *parser) line() ([]byte, bool) {
	if !p.begun {
		const bom = "\ufeff"
		if len(p.buf) < len(bom) && bytes.HasPrefix([]byte(bom), p.buf) {
			return nil, false
		}
		p.begun = true
		p.buf = bytes.TrimPrefix(p.buf, []byte(bom))
	}
	if p.skipLF && len(p.buf) > 0 {
		p.skipLF = false
		p.buf = bytes.TrimPrefix(p.buf, []byte("\n"))
	}
	i := bytes.IndexAny(p.buf[p.seek:], "\r\n")
	if i < 0 {
		p.seek = len(p.buf)
		return nil, false
	}
	end := p.seek + i
	line := p.buf[:end]
	p.skipLF = p.buf[end] == '\r'
	p.buf, p.seek = p.buf[end+1:], 0
	return line, true
}

// next returns the next event with data or with a heartbeat, and how many lines were consumed on the way to it.
func (p *parser) next() (ev Event, found bool, lines int, err error) {
	for {
		line, ok := p.line()
		if len(p.data)+len(line) > p.max || !ok && len(p.data)+len(p.buf) > p.max {
			return Event{}, false, lines, ErrTooLarge
		}
		if !ok {
			return Event{}, false, lines, nil
		}
		lines++
		if ev, ok := p.take(line); ok {
			return ev, true, lines, nil
		}
	}
}

// take adds one line to the current event and returns the event that it completes.
func (p *parser) take(line []byte) (Event, bool) {
	if len(line) == 0 {
		return p.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "":
		if h, ok := ParseHeartbeat(value); ok {
			return Event{Heartbeat: h}, true
		}
	case "data":
		if p.lines++; p.lines > 1 {
			p.data = append(p.data, '\n')
		}
		p.data = append(p.data, value...)
	case "event":
		p.name = bytes.Clone(value)
	}
	return Event{}, false
}

func (p *parser) dispatch() (Event, bool) {
	ev := Event{Name: string(p.name), Data: bytes.TrimSpace(p.data)}
	p.name, p.data, p.lines = nil, nil, 0
	return ev, len(ev.Data) > 0 && string(ev.Data) != "null"
}

// flush returns an event at the end of the stream that lacks only its blank line, if its data is whole.
func (p *parser) flush() (Event, bool) {
	if len(p.buf) > 0 {
		p.take(p.buf)
		p.buf, p.seek = nil, 0
	}
	ev, ok := p.dispatch()
	return ev, ok && (string(ev.Data) == doneData || json.Valid(ev.Data))
}
