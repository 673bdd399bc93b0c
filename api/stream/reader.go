package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

const (
	// DefaultMaxEvent is the cap on one event, and on a JSON body, in bytes: 16 MiB.
	DefaultMaxEvent = 16 << 20
	// readSize is how much is read at once.
	readSize = 16 << 10
	// maxRetryAfter is what a server may reasonably ask for.
	maxRetryAfter = 24 * time.Hour
)

// Options of a Reader.
type Options struct {
	// Idle is how long the server may be silent: the time without any line, heartbeats included. 0 sets no bound.
	Idle time.Duration
	// MaxEvent bounds one event, or a JSON body, in bytes; 0 means DefaultMaxEvent.
	MaxEvent int
}

// Event is a heartbeat, or data.
type Event struct {
	// Heartbeat is set where the event is one; then there is no data.
	Heartbeat *Heartbeat
	// Name is the event field; chat completions have none.
	Name string
	// Data is the payload, without [DONE].
	Data []byte
	// Whole says that Data is the server's one JSON body and no chunk of a stream.
	Whole bool
}

// Reader reads the answer to a request that asked for a stream. Call Next until it returns an error, then Close. It is
// not safe for concurrent use, except for Close.
type Reader struct {
	ctx    context.Context
	opts   Options
	body   io.Closer
	status int
	after  time.Duration // the Retry-After header
	whole  bool          // the answer is one JSON body

	chunks chan readResult // of the goroutine that reads
	closed context.Context
	quit   context.CancelFunc

	parser   parser
	choices  map[int]bool // by index: whether the choice has its finish reason
	finished bool         // every choice that was seen has its finish reason, or the JSON body has been read
	err      error        // final
}

type readResult struct {
	data []byte
	err  error
}

// Open starts reading a response. The context bounds the whole reading; give it the ceiling of the turn, and use the
// same one for the request. Close must be called.
func Open(ctx context.Context, resp *http.Response, opts Options) *Reader {
	if opts.MaxEvent <= 0 {
		opts.MaxEvent = DefaultMaxEvent
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	closed, quit := context.WithCancel(context.Background())
	r := &Reader{
		ctx: ctx, opts: opts, body: resp.Body, status: resp.StatusCode,
		whole:  mediaType == "application/json" || resp.StatusCode >= http.StatusMultipleChoices,
		after:  retryAfter(resp.Header),
		chunks: make(chan readResult), closed: closed, quit: quit,
		parser: parser{max: opts.MaxEvent}, choices: map[int]bool{},
	}
	go read(closed, resp.Body, r.chunks)
	return r
}

// read hands over what it reads, one piece at a time. Of its two buffers one is being consumed while the other fills: a
// piece is received only when the one before it has been copied.
func read(closed context.Context, body io.Reader, chunks chan<- readResult) {
	var buffers [2][readSize]byte
	for i := 0; ; i = 1 - i {
		n, err := body.Read(buffers[i][:])
		select {
		case chunks <- readResult{buffers[i][:n], err}:
		case <-closed.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

var errClosed = errors.New("stream: reader closed")

// Close releases the connection and ends the reading. It may be called at any time, also while Next waits, which then
// returns an error.
func (r *Reader) Close() error {
	r.quit()
	return r.body.Close()
}

// Next returns the next heartbeat or data. The end of a whole answer is io.EOF: after [DONE], after one JSON body, or
// however the stream ends (silence included) once every choice had its finish reason. Every other end is an error: ErrSilent,
// the context's own error, an *Error that the server told, ErrIncomplete, ErrTooLarge, or the connection's. The error
// stays.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	ev, err := r.next()
	if err == nil && ev.Heartbeat == nil {
		err = r.inspect(&ev)
	}
	if err != nil {
		r.err = err
		_ = r.Close() // what remains is of no use, and the server should know at once
		return Event{}, err
	}
	return ev, nil
}

func (r *Reader) next() (Event, error) {
	if r.whole {
		return r.nextWhole()
	}
	idle := newTimer(r.opts.Idle)
	defer idle.Stop()
	for {
		ev, found, lines, err := r.parser.next()
		if err != nil || found {
			return ev, err
		}
		if lines > 0 {
			idle.Rearm()
		}
		piece, err := r.wait(idle)
		r.parser.buf = append(r.parser.buf, piece...)
		if err != nil {
			return r.atEnd(err)
		}
	}
}

// atEnd looks once more at what has come before the stream ended with err.
func (r *Reader) atEnd(err error) (Event, error) {
	if ev, found, _, parseErr := r.parser.next(); found || parseErr != nil {
		if parseErr == nil {
			// The rest is read by the next call, which must meet the same end.
			r.chunks = ended(err)
		}
		return ev, parseErr
	}
	if errors.Is(err, io.EOF) {
		if ev, ok := r.parser.flush(); ok {
			r.chunks = ended(err)
			return ev, nil
		}
		err = ErrIncomplete
	}
	if r.finished && r.ctx.Err() == nil {
		return Event{}, io.EOF // the answer is whole, however its stream ended
	}
	return Event{}, err
}

// ended is a source that has nothing but its end.
func ended(err error) chan readResult {
	c := make(chan readResult, 1)
	c <- readResult{err: err}
	return c
}

// nextWhole reads a JSON body as one event.
func (r *Reader) nextWhole() (Event, error) {
	if r.finished {
		return Event{}, io.EOF
	}
	idle := newTimer(r.opts.Idle)
	defer idle.Stop()
	var body []byte
	for {
		piece, err := r.wait(idle)
		body = append(body, piece...)
		switch {
		case len(body) > r.opts.MaxEvent:
			return Event{}, ErrTooLarge
		case errors.Is(err, io.EOF):
			r.finished = true
			return Event{Data: body, Whole: true}, nil
		case err != nil:
			return Event{}, err
		}
		idle.Rearm() // a JSON body has no lines: here every piece is a sign of life
	}
}

// wait returns the next piece. The context's end goes before everything else: a turn that has run into its ceiling must not look
// like one that is worth trying again, and a cancelled request makes its body fail in many words.
func (r *Reader) wait(idle *timer) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	piece, err := r.receive(idle)
	if err != nil {
		err = cmp.Or(r.ceiling(), err)
	}
	return piece, err
}

// receive waits for the next piece. What has already come goes before silence.
func (r *Reader) receive(idle *timer) ([]byte, error) {
	select {
	case got := <-r.chunks:
		return got.data, got.err
	default:
	}
	select {
	case got := <-r.chunks:
		return got.data, got.err
	case <-r.ctx.Done():
		return nil, r.ctx.Err()
	case <-r.closed.Done():
		return nil, errClosed
	case <-idle.C():
		return nil, ErrSilent
	}
}

// ceiling is the context's error, also in the moment between its deadline and its own notice of that.
func (r *Reader) ceiling() error {
	if deadline, ok := r.ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return r.ctx.Err()
}

// outline is what a Reader looks at in data; the rest is the caller's.
type outline struct {
	Type     string          `json:"type"`
	Error    json.RawMessage `json:"error"`
	Response struct {
		Error json.RawMessage `json:"error"`
	} `json:"response"`
	Choices []struct {
		Index        int             `json:"index"`
		FinishReason *string         `json:"finish_reason"`
		Error        json.RawMessage `json:"error"`
	} `json:"choices"`
}

// fault returns the error that the data tells of, wherever it stands; nil where it tells of none.
func (d *outline) fault(status int) *Error {
	e := cmp.Or(parseError(d.Error, status), parseError(d.Response.Error, status))
	for i := range d.Choices {
		e = cmp.Or(e, parseError(d.Choices[i].Error, status))
	}
	return e
}

// note takes in how far the answer has come with an event.
func (r *Reader) note(d *outline) {
	for _, c := range d.Choices {
		r.choices[c.Index] = r.choices[c.Index] || c.FinishReason != nil && *c.FinishReason != ""
		r.finished = true // unless one of the others says no
	}
	switch d.Type { // how the other dialects end
	case "response.completed", "response.incomplete", "response.done", "message_stop":
		r.finished = true
	}
	for _, done := range r.choices {
		r.finished = r.finished && done
	}
}

// inspect turns [DONE] into io.EOF and an error that the server told into an *Error, and notes finish reasons.
func (r *Reader) inspect(ev *Event) error {
	if string(ev.Data) == doneData {
		return io.EOF
	}
	var d outline
	_ = json.Unmarshal(ev.Data, &d) // what does not fit stays empty
	if e := d.fault(r.status); e != nil {
		return r.withHeader(e)
	}
	valid := json.Valid(ev.Data)
	if r.status >= http.StatusMultipleChoices || ev.Name == "error" || d.Type == "error" {
		e := &Error{Status: r.status}
		if valid {
			e = parseError(ev.Data, r.status)
		}
		return r.withHeader(e)
	}
	if ev.Whole && !valid {
		return ErrIncomplete
	}
	if !ev.Whole {
		r.note(&d)
	}
	return nil
}

// withHeader adds what an error's body does not tell.
func (r *Reader) withHeader(e *Error) *Error {
	if e == nil {
		e = &Error{Status: r.status}
	}
	e.RetryAfter = cmp.Or(e.RetryAfter, r.after)
	return e
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err != nil {
		return 0
	}
	return wait(seconds, time.Second)
}

// Collect reads to the end and assembles a chat completion. Each event goes to watch first, where that is not nil.
// Beside an error it returns what had come by then, nil if that is nothing.
func (r *Reader) Collect(watch func(Event)) (*Completion, error) {
	var a Assembler
	for {
		ev, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a.Completion()
		}
		if err != nil {
			partial, _ := a.Completion()
			return partial, err
		}
		if watch != nil {
			watch(ev)
		}
		if err := a.Add(ev.Data); err != nil {
			partial, _ := a.Completion()
			return partial, err
		}
	}
}
