package mock

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	chunkHead = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"mock",` +
		`"system_fingerprint":"mock","choices":[`
	roleChunk   = chunkHead + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	finishChunk = chunkHead + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	usageChunk  = chunkHead + `],"usage":{"prompt_tokens":120,"completion_tokens":%[1]d,"total_tokens":%[1]d}}` + "\n\n"

	// commentEvery is how often a stream that only comments does so.
	commentEvery = 100 * time.Millisecond
)

// events writes a stream. After a caller has left, it writes nothing and says so.
type events struct {
	w    http.ResponseWriter
	conn *http.ResponseController
}

func begin(w http.ResponseWriter) events {
	w.Header()["Content-Type"] = []string{"text/event-stream"}
	w.Header()["Cache-Control"] = []string{"no-cache"}
	w.WriteHeader(http.StatusOK)
	return events{w: w, conn: http.NewResponseController(w)}
}

// say writes and flushes. It reports whether that was possible.
func (e events) say(text string) bool {
	_, err := io.WriteString(e.w, text)
	return err == nil && e.conn.Flush() == nil
}

// stream answers on an absolute schedule: it does not drift, however slow its caller is.
func stream(w http.ResponseWriter, r *http.Request, do behaviour) {
	e := begin(w)
	ok := e.say(roleChunk)
	began := time.Now()
	for i := 0; ok && i < do.chunks; i++ {
		ok = wait(r, time.Until(began.Add(time.Duration(i)*do.every))) &&
			e.say(fmt.Sprintf(chunkHead+`{"index":0,"delta":{"content":"tok%d "},"logprobs":null,"finish_reason":null}]}`+"\n\n", i))
	}
	if ok {
		e.say(finishChunk + fmt.Sprintf(usageChunk, do.chunks) + "data: [DONE]\n\n")
	}
}

// wait reports whether the caller is still there after d.
func wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// fault says nothing, in the way that is asked for.
func fault(w http.ResponseWriter, r *http.Request, kind string) {
	switch kind {
	case "headers-only":
		begin(w).say("")
	case "role-only":
		begin(w).say(roleChunk)
	case "comments":
		e := begin(w)
		for began := time.Now(); time.Since(began) < silence && e.say(": busy\n\n"); {
			if !wait(r, commentEvery) {
				return
			}
		}
		return
	}
	wait(r, silence)
}
