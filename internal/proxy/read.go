package proxy

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-dev/spillway/internal/openai"
)

const (
	// firstRead is the room for a body of unknown length; it doubles as the body grows.
	firstRead = 4 << 10
	// trustedLength is how much of a declared length is made room for at once. The rest is made room for as it comes: else a few
	// callers, or one backend, that only announce bodies could spend the budget of all.
	trustedLength = 256 << 10
	// growthUnknown and growthDeclared are the factors by which a buffer grows: of a body that may end with the next byte, and of
	// one whose length is declared.
	growthUnknown, growthDeclared = 2, 8
)

// codingZstd is the one content coding whose decoder may need much memory.
const codingZstd = "zstd"

// leastWindow is the window that decoders of zstd have to take over HTTP (RFC 9659), in bytes. Who compresses as it writes asks for
// 2 MiB and more, however small its body, and the decoder holds windows to its limit for the whole.
const leastWindow = 8 << 20

// overloadedRetry is when a caller may try again that found the budget for bodies spent.
const overloadedRetry = time.Second

var (
	errBodyTooLarge = errors.New("body larger than the limit")
	errNoMemory     = errors.New("budget for bodies is spent")
)

// read takes the whole body, decoded, before anything else is done: an attempt may have to send it again.
func read(x *exchange) *failure {
	body, err := x.p.readBody(x.r, x.lease)
	x.outside += time.Since(x.began)
	if err != nil {
		// net/http ends a request's context with every read that fails, also with one that a deadline of ours has ended.
		if x.r.Context().Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return x.gone()
		}
		return failed(bodyError(err, x.p.cfg.MaxBody))
	}
	x.body = body
	x.log.BytesIn = int64(len(body))
	return nil
}

// releaseBody gives up the body of a request that goes to no other backend any more: its answer may take long.
func (x *exchange) releaseBody() {
	x.body = nil
	x.lease.release()
}

func (p *Proxy) readBody(r *http.Request, l *lease) ([]byte, error) {
	codings := r.Header.Values("Content-Encoding")
	if coding(codings) == codingZstd {
		return p.readZstd(r, l)
	}
	body, closeBody, err := decoder(codings, r.Body, p.cfg.MaxBody)
	if err != nil {
		return nil, err
	}
	defer closeBody()
	if body == io.Reader(r.Body) {
		return p.readPlain(r, l)
	}
	return readAll(body, firstRead, p.cfg.MaxBody, growthUnknown, l)
}

// readPlain reads the body as it comes, into a buffer of its size where it says one.
func (p *Proxy) readPlain(r *http.Request, l *lease) ([]byte, error) {
	size, limit, times := int64(firstRead), p.cfg.MaxBody, int64(growthUnknown)
	if declared := r.ContentLength; declared >= 0 {
		if declared > limit {
			return nil, errBodyTooLarge
		}
		size, limit, times = min(declared, trustedLength), declared, growthDeclared
	}
	return readAll(r.Body, min(size, limit), limit, times, l)
}

// readZstd reads the whole body before it decodes it. A decoder of a stream needs the window that the sender asks for, 32 MiB for
// a body of one kilobyte, and no lease covers that; one that has it all looks back into what it has written.
func (p *Proxy) readZstd(r *http.Request, l *lease) ([]byte, error) {
	packed, err := p.readPlain(r, l)
	if err != nil {
		return nil, err
	}
	unpacker, err := p.unpacker()
	if err != nil {
		return nil, err
	}
	body, err := unpacker.DecodeAll(packed, nil)
	if err != nil {
		return nil, errDamaged{err}
	}
	if int64(len(body)) > p.cfg.MaxBody {
		return nil, errBodyTooLarge
	}
	l.release() // of what was packed
	if !l.grow(int64(cap(body))) {
		return nil, errNoMemory
	}
	return body, nil
}

// newUnpacker makes what decodes bodies up to limit. It works on four at a time at most, whose size no lease covers yet.
func newUnpacker(limit int64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(uint64(max(limit, leastWindow))))
}

// readAll reads to the end, growing from size up to limit, so many times at a time; the lease grows with it.
func readAll(body io.Reader, size, limit, times int64, l *lease) ([]byte, error) {
	// One byte more than expected: the end of the body has to be seen, and without a copy.
	buf, err := grown(nil, size+1, l)
	if err != nil {
		return nil, err
	}
	return readOn(buf, body, limit, times, l)
}

// readOn is readAll that goes on behind what buf holds.
func readOn(buf []byte, body io.Reader, limit, times int64, l *lease) ([]byte, error) {
	var err error
	for err == nil {
		var n int
		n, err = body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return buf, errBodyTooLarge
		}
		if err == nil && len(buf) == cap(buf) {
			buf, err = grown(buf, min(times*int64(cap(buf)), limit+1), l)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return buf, err
}

// grown returns buf with the given capacity, once the lease covers it.
func grown(buf []byte, capacity int64, l *lease) ([]byte, error) {
	if !l.grow(capacity) {
		return nil, errNoMemory
	}
	return append(make([]byte, 0, capacity), buf...), nil
}

// errEncoding is a content coding that this proxy does not know.
type errEncoding string

func (e errEncoding) Error() string { return "content coding not supported" }

// errDamaged wraps what a decoder found wrong with its input.
type errDamaged struct{ error }

func (e errDamaged) Unwrap() error { return e.error }

// decoder returns a reader of the decoded body and a function that frees it. It does not close body.
func decoder(codings []string, body io.Reader, limit int64) (io.Reader, func(), error) {
	switch named := coding(codings); named {
	case "", "identity":
		return body, func() {}, nil
	case "gzip", "x-gzip":
		return &damageReader{open: func() (io.Reader, error) { return gzip.NewReader(body) }}, func() {}, nil
	case codingZstd:
		// One goroutine less than its default: it decodes on the reader's own.
		dec, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)+1))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return &damageReader{r: dec}, dec.Close, nil
	default:
		return nil, nil, errEncoding(named)
	}
}

// coding is the content coding that a header names.
func coding(codings []string) string {
	return strings.ToLower(strings.TrimSpace(strings.Join(codings, ",")))
}

// damageReader marks errors of a decoder, and opens it with the first read: opening reads.
type damageReader struct {
	open func() (io.Reader, error)
	r    io.Reader
}

func (d *damageReader) Read(p []byte) (int, error) {
	if d.r == nil {
		r, err := d.open()
		if err != nil {
			return 0, errDamaged{err}
		}
		d.r = r
	}
	n, err := d.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = errDamaged{err}
	}
	return n, err
}

// noMemory is what a caller gets whose request or answer finds the budget for bodies spent.
func noMemory() *openai.Error {
	return &openai.Error{Code: openai.CodeOverloaded, RetryAfter: overloadedRetry,
		Message: "this proxy holds as many bytes of requests and answers as it may; try again in a moment"}
}

func bodyError(err error, limit int64) *openai.Error {
	var encoding errEncoding
	var damaged errDamaged
	switch {
	case errors.Is(err, errBodyTooLarge), errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return &openai.Error{Code: openai.CodeRequestTooLarge,
			Message: fmt.Sprintf("the request body is larger than %d bytes, the limit of this proxy", limit)}
	case errors.Is(err, errNoMemory):
		return noMemory()
	case errors.As(err, &encoding):
		return &openai.Error{Code: openai.CodeUnsupportedEncoding,
			Message: "the request body has a Content-Encoding that is not supported; use gzip, zstd or none"}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &openai.Error{Code: openai.CodeInvalidRequest, Status: http.StatusRequestTimeout,
			Message: "the request body did not arrive in time"}
	case errors.As(err, &damaged):
		return &openai.Error{Code: openai.CodeInvalidRequest, Message: "the request body is damaged: its Content-Encoding cannot be decoded"}
	}
	return &openai.Error{Code: openai.CodeInvalidRequest, Message: "the request body ended early"}
}
