package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scripted answers every call with the same status, content type and bytes, then holds the connection if hang is set. Without a
// status it holds the connection at once.
type scripted struct {
	status      int
	contentType string
	header      http.Header
	body        string
	hang        bool

	asked []string // bodies
	sent  http.Header
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.asked, s.sent = append(s.asked, r.URL.Path+" "+string(body)), r.Header.Clone()
	for name, values := range s.header {
		w.Header()[name] = values
	}
	if s.status == 0 {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", s.contentType)
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
	if s.hang {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func serve(t *testing.T, s *scripted) string {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL
}

// A turn that spills over: the busy tower, then the hosted model, which thinks aloud.
const spilled = `: {"state":"queued","backend":"tower","position":3}
: {"state":"attempt","n":1,"of":2,"backend":"tower","regime":"contended"}
: {"state":"attempt","n":1,"of":2,"backend":"tower","regime":"contended","elapsed_ms":10000}
: {"state":"backend_saturated","backend":"tower","failing_over":true}
: {"state":"attempt","n":2,"of":2,"backend":"hosted","regime":"hosted"}
: {"state":"upstream_started","backend":"hosted","n":2,"reason":"saturated"}
data: {"choices":[{"delta":{"role":"assistant","reasoning_content":"Hm. "}}]}

data: {"choices":[{"delta":{"reasoning_content":"Capitals."}}]}

data: {"choices":[{"delta":{"content":"Par"}}]}

data: {"choices":[{"delta":{"content":"is\u001b[31m"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"completion_tokens":5}}

data: [DONE]

`

func TestChat(t *testing.T) {
	sse := "text/event-stream"
	cases := map[string]struct {
		server  scripted
		args    []string
		wantOut string
		wantErr string // its end
		served  bool
	}{
		"a turn that spills over": {
			server:  scripted{status: 200, contentType: sse, body: spilled},
			served:  true,
			wantOut: "Paris\x1b[31m\n", // to a file the bytes are the model's own
			wantErr: "[0s] asking\n[0s] waiting for tower, number 3 in its queue\n[0s] asking tower (1 of 2), contended\n" +
				"[0s] tower is busy, going on to the next\n[0s] asking hosted (2 of 2), hosted\n" +
				"Hm. Capitals.\n\nhosted answered (saturated), attempt 2, first token after 0s, 5 tokens\n",
		},
		"one JSON body": {
			server: scripted{status: 200, contentType: "application/json",
				header: http.Header{"X-Spillway-Backend": {"tower"}, "X-Spillway-Reason": {"first"}},
				body:   `{"choices":[{"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`},
			served:  true,
			wantOut: "Hello\n",
			wantErr: "[0s] asking\ntower answered (first), first token after 0s, 1 tokens\n",
		},
		"content as parts that think": {
			server: scripted{status: 200, contentType: sse,
				body: "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"Hm.\"}]},{\"type\":\"text\",\"text\":\"Par\"}]}}]}\n\n" +
					"data: {\"choices\":[{\"delta\":{\"content\":\"is\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"},
			served:  true,
			wantOut: "Paris\n",
			wantErr: "[0s] asking\nHm.\n\nthe server answered, first token after 0s\n",
		},
		"messages that say again what the deltas have said": {
			server: scripted{status: 200, contentType: sse,
				body: "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Hm.\"},\"message\":{\"reasoning_content\":\"Hm.\"}}]}\n\n" +
					"data: {\"choices\":[{\"delta\":{\"content\":\"Par\"},\"message\":{\"content\":\"Par\"}}]}\n\n" +
					"data: {\"choices\":[{\"delta\":{\"content\":\"is\"},\"message\":{\"content\":\"Paris\"}}]}\n\n" +
					"data: {\"choices\":[{\"message\":{\"content\":\"Paris\",\"reasoning_content\":\"Hm.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"},
			served:  true,
			wantOut: "Paris\n",
			wantErr: "[0s] asking\nHm.\n\nthe server answered, first token after 0s\n",
		},
		"an error with its status": {
			server: scripted{status: 503, contentType: "application/json", header: http.Header{"Retry-After": {"30"}},
				body: `{"error":{"message":"all backends are busy","code":"backend_saturated","attempts":[{"backend":"tower","class":"Saturated"},{"backend":"hosted","class":"Refused"}]}}`},
			wantErr: "[0s] asking\nError: backend_saturated: all backends are busy (status 503); tried: tower (Saturated), hosted (Refused); try again in 30s\n",
		},
		"an error within the stream": {
			server: scripted{status: 200, contentType: sse,
				body: "data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\n\ndata: {\"error\":{\"code\":\"stream_failed\",\"message\":\"the backend broke off\",\"retry_after_ms\":1500}}\n\n"},
			wantOut: "Par\n",
			wantErr: "[0s] asking\nError: stream_failed: the backend broke off (status 200); try again in 1.5s\n",
		},
		"a stream that is cut": {
			server:  scripted{status: 200, contentType: sse, body: "data: {\"choices\":[{\"delta\":{\"content\":\"Par\"}}]}\n\n"},
			wantOut: "Par\n",
			wantErr: "[0s] asking\nError: cut: the stream ended before the answer was complete\n",
		},
		"silence": {
			server: scripted{status: 200, contentType: sse, body: ": {\"state\":\"attempt\",\"n\":1,\"of\":1,\"backend\":\"tower\"}\n", hang: true},
			args:   []string{"--idle", "50ms"},
			wantErr: "[0s] asking\n[0s] asking tower (1 of 1)\n" +
				"Error: silent: nothing came for 50ms, not even a heartbeat (--idle); another try can work\n",
		},
		"silence before the header of an answer": {
			args:    []string{"--idle", "50ms"},
			wantErr: "[0s] asking\nError: silent: nothing came for 50ms, not even a heartbeat (--idle); another try can work\n",
		},
		"the ceiling before the header of an answer": {
			args:    []string{"--timeout", "50ms"},
			wantErr: "[0s] asking\nError: too long: the answer was not complete after 50ms (--timeout)\n",
		},
		"the ceiling": {
			server:  scripted{status: 200, contentType: sse, body: ": {\"state\":\"queued\",\"backend\":\"tower\",\"position\":1}\n", hang: true},
			args:    []string{"--timeout", "50ms"},
			wantErr: "[0s] asking\n[0s] waiting for tower, number 1 in its queue\nError: too long: the answer was not complete after 50ms (--timeout)\n",
		},
		"a redirect": {
			server:  scripted{status: 307, contentType: sse, header: http.Header{"Location": {"/elsewhere"}}},
			wantErr: "the address answers with a redirect, which no proxy does: check --url\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			url := serve(t, &tc.server)
			code := r.run(append([]string{"chat", "sirens-echo/default", "Capital of France?", "--url", url}, tc.args...)...)
			if (code == 0) != tc.served {
				t.Errorf("exit code %d", code)
			}
			if diff := cmp.Diff(tc.wantOut, r.out.String()); diff != "" {
				t.Errorf("standard output (-want +got):\n%s", diff)
			}
			if got := r.err.String(); !strings.HasSuffix(got, tc.wantErr) {
				t.Errorf("standard error (-want +got):\n%s", cmp.Diff(tc.wantErr, got))
			}
		})
	}
}

func TestPromptsFromStandardInput(t *testing.T) {
	cases := map[string]struct {
		in        string
		wantError string
	}{
		"the longest that is taken": {strings.Repeat("a", maxPrompt), ""},
		"none":                      {" \n", "there is no prompt"},
		"one that would be cut":     {strings.Repeat("a", maxPrompt+1), "longer than 16 MiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			prompt, err := readPrompt(strings.NewReader(tc.in))
			if tc.wantError == "" && (err != nil || prompt != tc.in) {
				t.Errorf("%d bytes and %v", len(prompt), err)
			}
			if tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)) {
				t.Errorf("error %v, want %q", err, tc.wantError)
			}
		})
	}
}

func TestChatSendsWhatIsAsked(t *testing.T) {
	t.Setenv(TokenVariable, "swordfish\n")
	r := newRig(t, world(t)...)
	s := &scripted{status: 200, contentType: "text/event-stream", body: spilled}
	r.in.WriteString("From a pipe")
	if code := r.run("chat", "default", "-n=sirens-echo", "--prefer", "tower", "--max-tokens", "9", "--url", serve(t, s)+"/v1/"); code != 0 {
		t.Fatalf("exit code %d: %s", code, r.err)
	}
	want := []string{`/v1/chat/completions {"model":"sirens-echo/default","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"From a pipe"}]}`}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.sent.Get("X-Prefer-Backend") != "tower" || s.sent.Get("Authorization") != "Bearer swordfish" {
		t.Errorf("headers %v", s.sent)
	}
	if strings.Contains(r.out.String()+r.err.String(), "swordfish") {
		t.Error("the token is shown")
	}
}

func TestAConversationKeepsWhatWasSaid(t *testing.T) {
	r := newRig(t)
	s := &scripted{status: 200, contentType: "text/event-stream", body: "data: {\"choices\":[{\"delta\":{\"content\":\"Yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"}
	r.in.WriteString("One\n\nTwo\n")
	base, err := baseURL(serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{chatCommand: &chatCommand{cli: r.cli, ceiling: 1 << 40}, target: &target{base: base, model: "m", client: http.DefaultClient}}
	if err := c.converse(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`/v1/chat/completions {"model":"m","stream":true,"messages":[{"role":"user","content":"One"}]}`,
		`/v1/chat/completions {"model":"m","stream":true,"messages":[{"role":"user","content":"One"},{"role":"assistant","content":"Yes"},{"role":"user","content":"Two"}]}`,
	}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Ctrl-C ends a conversation also while it waits for the person.
func TestAConversationEndsWithTheInterrupt(t *testing.T) {
	r := newRig(t)
	in, person := io.Pipe()
	defer person.Close() // ends the read
	r.cli.In = in
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		c := &conversation{chatCommand: &chatCommand{cli: r.cli}}
		ended <- c.converse(ctx)
	}()
	if _, err := io.WriteString(person, "\n"); err != nil { // the conversation has begun
		t.Fatal(err)
	}
	interrupt()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// On a terminal the state is one line that is written over, reasoning is dim, and no model steers the terminal.
func TestChatOnATerminal(t *testing.T) {
	r := newRig(t)
	v := newChatView(r.cli)
	v.live = true
	v.status("asking tower")
	v.status("asking tower")
	v.think("Hm\x1b[31m")
	v.say("Yes")
	v.finish()
	want := "\r\x1b[2K\x1b[2masking tower ...\x1b[22m\r\x1b[2K\x1b[2mHm[31m\x1b[22m\n\n\x1b[2mthe server answered, first token after 0s\x1b[22m\n"
	if diff := cmp.Diff(want, r.err.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBaseURL(t *testing.T) {
	cases := map[string]struct {
		text, want string // want empty: an error
	}{
		"an address":           {"http://127.0.0.1:8081", "http://127.0.0.1:8081/v1"},
		"with a slash":         {"http://127.0.0.1:8081/", "http://127.0.0.1:8081/v1"},
		"the API's own":        {"https://llm.example/v1/", "https://llm.example/v1"},
		"below a directory":    {"https://llm.example/spillway", "https://llm.example/spillway/v1"},
		"an IPv6 address":      {"http://[::1]:8081", "http://[::1]:8081/v1"},
		"no scheme":            {"127.0.0.1:8081", ""},
		"another scheme":       {"ftp://h", ""},
		"a password":           {"http://u:swordfish@h", ""},
		"a query":              {"http://h?key=swordfish", ""},
		"nothing but a scheme": {"http://", ""},
		"something unreadable": {"http://h\x00", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := baseURL(tc.text)
			if got != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("got %q, %v", got, err)
			}
			if strings.Contains(fmt.Sprint(err), "swordfish") {
				t.Errorf("the error quotes a secret: %v", err)
			}
		})
	}
}
