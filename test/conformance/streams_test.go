package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A backend that is cut off in each phase: who is asked next, and what the caller has in the end.
func TestCutsInEveryPhase(t *testing.T) {
	second := role + c("second") + fin + done
	lost := func(got string) string { return got + `data: {"error":` }
	reset := func(w *wire, pieces ...string) {
		w.send(pieces...)
		w.pause(grace) // what was sent arrives before the reset destroys it
		w.reset()
	}
	chunkedHead := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	cases := map[string]struct {
		script func(w *wire)
		want   string // events; a prefix where it ends with the error
	}{
		"a reset after the request":                  {func(w *wire) { w.reset() }, second},
		"a reset within the status line":             {func(w *wire) { reset(w, "HTTP/1.1 20") }, second},
		"a reset behind the header":                  {func(w *wire) { reset(w, sseHead) }, second},
		"a reset behind the prelude":                 {func(w *wire) { reset(w, sseHead, role) }, second},
		"a reset within the first token":             {func(w *wire) { reset(w, sseHead, role, c("first")[:60]) }, second},
		"a reset before the empty line of the token": {func(w *wire) { reset(w, sseHead, strings.TrimSuffix(c("first"), "\n\n")) }, lost(c("first"))},
		"a reset behind a token":                     {func(w *wire) { reset(w, sseHead, c("first")) }, lost(c("first"))},
		"a reset within the second token":            {func(w *wire) { reset(w, sseHead, c("first"), c("next")[:60]) }, lost(c("first"))},
		"a reset behind the finish":                  {func(w *wire) { reset(w, sseHead, c("first"), fin) }, c("first") + fin + done},
		"a reset behind the end":                     {func(w *wire) { reset(w, sseHead, c("first"), fin, done) }, c("first") + fin + done},
		"a clean end behind a token": {func(w *wire) {
			w.send(chunkedHead, chunked(c("first")), chunked(""))
		}, lost(c("first"))},
		"a chunked body that lacks its end": {func(w *wire) { w.send(chunkedHead, chunked(c("first"))) }, lost(c("first"))},
		"damaged chunks behind a token":     {func(w *wire) { w.send(chunkedHead, chunked(c("first")), "zz\r\n") }, lost(c("first"))},
		"damaged chunks behind the finish":  {func(w *wire) { w.send(chunkedHead, chunked(c("first")+fin), "zz\r\n") }, c("first") + fin + done},
		"less than the declared length": {func(w *wire) {
			w.send("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", c("first"))
		}, lost(c("first"))},
		"more than the declared length": {func(w *wire) {
			w.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", c("first"))
		}, second},
		"events behind the end": {func(w *wire) { w.send(sseHead, c("first"), fin, done, c("late")) }, c("first") + fin + done},
		"trailers, one of them a secret of the connection": {func(w *wire) {
			w.send("HTTP/1.1 200 OK\r\nTrailer: X-Late\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(c("first")+fin+done), "0\r\nX-Late: LATE\r\n\r\n")
		}, c("first") + fin + done},
		"informational answers first": {func(w *wire) {
			w.send("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </LATE>\r\n\r\n", sseHead, c("first"), fin, done)
		}, c("first") + fin + done},
		"an upgrade that nobody asked for": {func(w *wire) {
			w.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		}, second},
		"no content":                 {func(w *wire) { w.send("HTTP/1.1 204 No Content\r\n\r\n") }, second},
		"a header that is too large": {func(w *wire) { w.send("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 300<<10)+"\r\n\r\n", c("first")) }, second},
		"two different lengths":      {func(w *wire) { w.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n123456") }, second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newUpstream(t, func(_ int, w *wire) { tc.script(w) }), well(t, "second")
			r := routed(t, nil, a, b)
			got := r.stream()
			want, broken := strings.CutSuffix(tc.want, `data: {"error":`)
			if broken {
				if said := got.said(t); said.Code != "stream_incomplete" || said.Attempts != "a broken" {
					t.Errorf("error %+v", said)
				}
				got.body = got.body[:strings.LastIndex(got.body, "data: ")]
			}
			if diff := cmp.Diff(want, events(got.body)); diff != "" || got.err != nil {
				t.Errorf("events (-want +got), %v:\n%s", got.err, diff)
			}
			if strings.Contains(got.body, "LATE") || len(got.header["X-Late"]) > 0 {
				t.Error("a trailer or an informational answer crossed")
			}
			if asked := b.count() == 1; asked != (tc.want == second) {
				t.Errorf("the second backend was asked: %v", asked)
			}
		})
	}
}
