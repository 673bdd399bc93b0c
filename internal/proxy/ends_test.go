package proxy_test

import (
	"strings"
	"testing"
	"time"
)

// Events of the dialects that end a stream with an event of their own.
const (
	messagesPath, responsesPath = "/v1/messages", "/v1/responses"

	messageText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n"
	messageDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
	messageStop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	messagePing  = "event: ping\ndata: {\"type\":\"ping\"}\n\n"

	responseText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"
	otherDone    = "data: {\"type\":\"response.done\",\"response\":{\"status\":\"completed\"}}\n\n"
	responseDone = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"
)

// dribble sends a piece again and again until the proxy leaves.
func (w *wire) dribble(piece string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		select {
		case <-tick.C:
			w.send(piece)
		case <-w.gone:
			return
		}
	}
	w.t.Error("the proxy goes on listening")
}

// How a stream ends that the backend does not end, or not in the words of its dialect.
func TestStreamsEndByTheirDialect(t *testing.T) {
	const cut = `"code":"stream_incomplete"`
	cases := map[string]struct {
		path    string // empty: chat completions
		sent    string
		dribble string // sent for ever behind that; empty: silence
		closed  bool   // the backend closes the connection
		want    string // events; what begins with a quote is to be in the last one
	}{
		"messages: nothing comes behind message_stop":     {path: messagesPath, sent: messageText + messageDelta + messageStop, want: messageText + messageDelta + messageStop},
		"messages: what comes behind it does not count":   {path: messagesPath, sent: messageText + messageDelta + messageStop + messagePing + done, closed: true, want: messageText + messageDelta + messageStop},
		"messages: its message_stop is missing":           {path: messagesPath, sent: messageText + messageDelta, closed: true, want: messageText + messageDelta + messageStop},
		"messages: silence in place of message_stop":      {path: messagesPath, sent: messageText + messageDelta, want: messageText + messageDelta + messageStop},
		"messages: DONE in place of message_stop":         {path: messagesPath, sent: messageText + messageDelta + done, want: messageText + messageDelta + messageStop},
		"messages: DONE in place of a stop reason":        {path: messagesPath, sent: messageText + done, want: cut},
		"responses: nothing comes behind the completion":  {path: responsesPath, sent: responseText + responseDone, want: responseText + responseDone},
		"responses: DONE behind the completion":           {path: responsesPath, sent: responseText + responseDone + done, closed: true, want: responseText + responseDone},
		"responses: DONE in place of the completion":      {path: responsesPath, sent: responseText + done, want: cut},
		"responses: the completion by another name":       {path: responsesPath, sent: responseText + otherDone + done, closed: true, want: responseText + otherDone},
		"responses: the completion is missing":            {path: responsesPath, sent: responseText, closed: true, want: cut},
		"chat: comments for ever in place of DONE":        {sent: c("a") + fin, dribble: ": ping\n\n", want: c("a") + fin + done},
		"messages: pings for ever in place of the end":    {path: messagesPath, sent: messageText + messageDelta, dribble: messagePing, want: messageText + messageDelta + messageStop},
		"chat: a choice that begins behind the other one": {sent: c("a") + fin + strings.Replace(c("b")+fin, `"index":0`, `"index":1`, 2), want: c("a") + fin + strings.Replace(c("b")+fin, `"index":0`, `"index":1`, 2) + done},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(_ int, w *wire) {
				w.send(sseHead, tc.sent)
				switch {
				case tc.dribble != "":
					w.dribble(tc.dribble)
				case !tc.closed:
					w.silence()
				}
			})
			route := newRoute(u)
			route.Timeouts.Idle, route.Heartbeat.Interval = 100*time.Millisecond, 10*time.Millisecond
			r := newRig(t, route)
			path := tc.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			got := r.postTo(path, streamed)
			text := strings.ReplaceAll(events(got.body), messagePing, "")
			if strings.HasPrefix(tc.want, `"`) && !strings.Contains(text, tc.want) || !strings.HasPrefix(tc.want, `"`) && text != tc.want {
				t.Errorf("events %q, want %q", text, tc.want)
			}
			if !strings.HasSuffix(got.body, "}\n\n") && !strings.HasSuffix(got.body, done) {
				t.Errorf("a comment behind the last event: %q", got.body)
			}
		})
	}
}

// One dialect tells the prompt's tokens at the beginning and the answer's at the end.
func TestUsageOfMessagesIsCountedWhole(t *testing.T) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n"
	r := newRig(t, newRoute(says(t, sseHead, start, messageText, messageDelta, messageStop)))
	r.postTo(messagesPath, streamed)
	for kind, n := range map[string]string{"prompt": "7", "completion": "9"} {
		sample := `llm_tokens_total{backend="a",kind="` + kind + `",logical_model="ns/m"} ` + n
		waitFor(t, func() bool { return r.counted(sample) })
	}
}
