package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"
)

// Answer is what came back for one request.
type Answer struct {
	Status int
	// Token is when the first chunk with content arrived; zero where none did. Ended is when the answer was whole.
	Token, Ended time.Time

	chunks       int // with content
	finish, done bool
}

var (
	contentMark = []byte(`"content":"`)
	finishMark  = []byte(`"finish_reason":"`)
	doneMark    = []byte("[DONE]")
	dataMark    = []byte("data:")
)

// readBody reads a body that is no stream into buf, in which it has to fit.
func (a *Answer) readBody(body io.Reader, buf []byte) error {
	n := 0
	for {
		m, err := body.Read(buf[n:])
		n += m
		switch {
		case errors.Is(err, io.EOF):
			a.finish = bytes.Contains(buf[:n], finishMark)
			return nil
		case err != nil:
			return err
		case n == len(buf):
			return fmt.Errorf("larger than %d bytes", len(buf))
		}
	}
}

// readEvents reads a stream, line by line.
func (a *Answer) readEvents(lines *bufio.Reader, onToken func()) error {
	for {
		line, err := lines.ReadSlice('\n')
		if bytes.HasPrefix(line, dataMark) {
			a.event(line, onToken)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (a *Answer) event(line []byte, onToken func()) {
	at := bytes.Index(line, contentMark)
	switch {
	case at >= 0 && line[at+len(contentMark)] != '"':
		if a.chunks++; a.chunks > 1 {
			return
		}
		a.Token = time.Now()
		if onToken != nil {
			onToken()
		}
	case bytes.Contains(line, finishMark):
		a.finish = true
	case bytes.Contains(line, doneMark):
		a.done = true
	}
}

// Check says what is wrong with the answer to r; nil where it is whole.
func (a *Answer) Check(r *Request) error {
	switch {
	case a.Status != 200:
		return fmt.Errorf("status %d", a.Status)
	case !r.stream && !a.finish:
		return errors.New("not a completion")
	case r.stream && (a.chunks != r.chunks || !a.finish || !a.done):
		return fmt.Errorf("broken stream: %d chunks, finish %t, done %t", a.chunks, a.finish, a.done)
	}
	return nil
}
