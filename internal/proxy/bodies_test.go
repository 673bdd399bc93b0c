package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

// An answer that is only announced takes no more of the budget for bodies than a small one.
func TestAnnouncedAnswersDoNotSpendTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{"}, func(*table.Route) {})
		b.proxy.memory.limit = 4 << 20
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
		defer leave()
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				if w, after := b.ask(ctx, false); after != 10*time.Second {
					t.Errorf("after %s: %d %s", after, w.Code, w.Body)
				}
			})
		}
		callers.Wait()
	})
}

// A backend that is given up is given up for that, whatever there is room for then.
func TestSilentBackendIsLeftWhenTheBudgetForBodiesIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head, _, _ := strings.Cut(oneToken, "data:")
		b := newBubble(t, []string{head, oneToken + "data: [DONE]\n\n"}, func(r *table.Route) {
			r.Chain[0].Saturation.SlowAfter = 10 * time.Second
		})
		time.AfterFunc(time.Second, func() { b.proxy.memory.used.Store(b.proxy.memory.limit) })
		w, after := b.ask(t.Context(), true)
		if !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") || after != 10*time.Second {
			t.Errorf("%d after %s: %s", w.Code, after, w.Body)
		}
	})
}

// What a probe has read counts, whatever its last read ended with.
func TestProbeTakesATokenThatCameWithTheEnd(t *testing.T) {
	_, token, _ := strings.Cut(oneToken, "\r\n\r\n")
	if o := judgeEvents(nil, []byte("data: {}\n\n"+token), io.EOF, openai.ChatCompletions); o.Class != Success {
		t.Errorf("%s: %s", o.Class, o.Cause)
	}
}

// A fault of this proxy says nothing of the backend that it probes.
func TestPanicWithinAProbeIsNoEvidence(t *testing.T) {
	var log strings.Builder
	p := &Proxy{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	u := upstream{waiter: prober{t.Context()}, request: func(context.Context) *http.Request { panic("SECRET") }}
	if o := p.firstTokenOf(&u, openai.ChatCompletions); o.evidence().Kind != breaker.Neutral {
		t.Errorf("evidence %+v", o.evidence())
	}
	if text := log.String(); !strings.Contains(text, "panic in a request") || strings.Contains(text, "SECRET") {
		t.Errorf("log %s", text)
	}
}

func TestErrorsOfBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		err        error
		wantStatus int
		wantWords  string
	}{
		"too large":                {errBodyTooLarge, 413, "larger than 7 bytes"},
		"too large, unpacked":      {errDamaged{zstd.ErrDecoderSizeExceeded}, 413, "larger than 7 bytes"},
		"a window that is too big": {errDamaged{zstd.ErrWindowSizeExceeded}, 413, "larger than 7 bytes"},
		"no room":                  {errNoMemory, 503, "as it may"},
		"an unknown coding":        {errEncoding("br"), 415, "not supported"},
		"too slow":                 {os.ErrDeadlineExceeded, 408, "in time"},
		"damaged":                  {errDamaged{io.ErrUnexpectedEOF}, 400, "damaged"},
		"cut":                      {io.ErrUnexpectedEOF, 400, "ended early"},
	} {
		t.Run(name, func(t *testing.T) {
			got := bodyError(tc.err, 7)
			if got.HTTPStatus() != tc.wantStatus || !strings.Contains(got.Message, tc.wantWords) {
				t.Errorf("status %d: %s", got.HTTPStatus(), got.Message)
			}
			if mayHelp := tc.wantStatus == 408 || tc.wantStatus == 503; pointless(got) == mayHelp {
				t.Errorf("another try is pointless = %v", !mayHelp)
			}
		})
	}
}

// net/http ends the context of a request whose body cannot be read, whoever has ended the reading.
func TestSlowBodyIsNoCallerThatLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want openai.Code
	}{
		"a deadline of ours": {os.ErrDeadlineExceeded, openai.CodeInvalidRequest},
		"a caller that left": {io.ErrUnexpectedEOF, openai.CodeClientClosed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", iotest.ErrReader(tc.err))
			if err != nil {
				t.Fatal(err)
			}
			p := &Proxy{cfg: Config{MaxBody: 1 << 10}}
			p.memory.limit = 1 << 20
			if f := read(&exchange{p: p, r: r, lease: p.memory.requestLease()}); f.err.Code != tc.want {
				t.Errorf("code %s, want %s", f.err.Code, tc.want)
			}
		})
	}
}

func TestBodyThatIsCutWithinItsCodingIsDamaged(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, "a body")
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{3, packed.Len() - 5} {
		r, closeBody, err := decoder([]string{"gzip"}, bytes.NewReader(packed.Bytes()[:cut]), 100)
		if err != nil {
			t.Fatal(err)
		}
		defer closeBody()
		var damaged errDamaged
		if _, err := io.ReadAll(r); !errors.As(err, &damaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

// What is unpacked is as much of the budget as what comes plain.
func TestUnpackedBodiesSpendTheBudget(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	body := w.EncodeAll([]byte(`{"model":"ns/m","x":"`+strings.Repeat("x", 1<<16)+`"}`), nil)
	b := newBubble(t, []string{oneToken}, func(*table.Route) {})
	b.proxy.memory.limit = 1 << 16
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Encoding", "zstd")
	lease := b.proxy.memory.requestLease()
	if _, err := b.proxy.readBody(r, lease); !errors.Is(err, errNoMemory) {
		t.Errorf("error %v", err)
	}
	lease.release()
}

func TestSniffReadsUntilTheShapeIsThere(t *testing.T) {
	const (
		stream = "Text/Event-Stream; charset=utf-8"
		room   = 64
	)
	for name, tc := range map[string]struct {
		body, header string
		want         openai.Shape
		wantBody     string // but for blanks before it
	}{
		"an object":                          {`{"a":1}`, stream, openai.ShapeJSON, `{"a":1}`},
		"an object behind blank lines":       {strings.Repeat("\r\n", room) + `{"a":1}`, "", openai.ShapeJSON, `{"a":1}`},
		"an object behind a mark":            {"\ufeff {", "", openai.ShapeJSON, "{"},
		"a field":                            {"data: 1\n", "application/json", openai.ShapeSSE, "data: 1\n"},
		"a comment":                          {": 1\n", "", openai.ShapeSSE, ": 1\n"},
		"an unknown field of a stream":       {"foo: 1\n", stream, openai.ShapeSSE, "foo: 1\n"},
		"an unknown field of something else": {"foo: 1\n", "text/plain", openai.ShapeOther, "foo: 1\n"},
		"HTML by the name of a stream":       {"<html>", stream, openai.ShapeOther, "<html>"},
		"nothing by the name of a stream":    {"", stream, openai.ShapeOther, ""},
		"half a field":                       {"da", "", openai.ShapeOther, "da"},
		"a mark and nothing but blanks":      {"\ufeff" + strings.Repeat(" ", 2*room), "", openai.ShapeOther, "\ufeff" + strings.Repeat(" ", 2*room)},
	} {
		for way, body := range map[string]io.Reader{"at once": strings.NewReader(tc.body), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.body))} {
			t.Run(name+", "+way, func(t *testing.T) {
				prefix, shape, err := sniff(body, make([]byte, room), http.Header{"Content-Type": {tc.header}})
				rest, _ := io.ReadAll(body)
				if got := strings.TrimLeft(string(prefix)+string(rest), blank); shape != tc.want || got != tc.wantBody || err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("shape %d of %.40q, %v; want %d of %.40q", shape, got, err, tc.want, tc.wantBody)
				}
			})
		}
	}
}

// What a call returns to nobody is dropped, that it may be closed.
func TestWhatComesTooLateIsDropped(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	var background sync.WaitGroup
	u := &upstream{waiter: prober{ctx}, background: &background}
	left, dropped := make(chan struct{}), 0
	call := func(context.Context) (int, error) { <-left; return 7, nil }
	_, err := awaitCall(u, call, func(v int) { dropped = v })
	u.close()
	close(left)
	background.Wait()
	if err == nil || dropped != 7 {
		t.Errorf("error %v, dropped %d", err, dropped)
	}
}

func TestPromptsAreMeasuredWhereTheyAreWords(t *testing.T) {
	words := strings.Repeat("x", 400)
	for name, tc := range map[string]struct {
		body   string
		window int64
		want   int64
	}{
		"words":                     {words, 1, 100},
		"no window to compare with": {words, 0, 0},
		"an image in a URL":         {words + `"data:image/png;base64,AAAA"`, 1, 0},
		"an image as a source":      {words + `{"type":"base64","data":"AAAA"}`, 1, 0},
		"sound":                     {words + `{"type":"input_audio"}`, 1, 0},
		"a file":                    {words + `{"file_data":"AAAA"}`, 1, 0},
		"an image as a source, too": {words + `{"type": "base64"}`, 1, 0},
		"an image made before":      {words + `{"type":"image_generation_call","result":"AAAA"}`, 1, 0},
		"a form of the answer":      {words[26:] + `"encoding_format":"base64"`, 1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			x := &exchange{route: &table.Route{Chain: []table.Backend{{}, {ContextWindow: tc.window}}}, body: []byte(tc.body)}
			if got := x.promptTokens(); got != tc.want {
				t.Errorf("%d tokens, want %d", got, tc.want)
			}
		})
	}
}

func TestCallerThatLeftIsNotRefused(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	x := &exchange{r: (&http.Request{}).WithContext(ctx)}
	refusal := &openai.Error{Code: openai.CodeForbidden}
	if f := x.refused(refusal); f.gone || f.err != refusal {
		t.Errorf("one who waits: %+v", f)
	}
	leave()
	if f := x.refused(refusal); !f.gone {
		t.Errorf("one who left: %+v", f)
	}
}
