package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/spillway-dev/spillway/hack/simbackend/sim"
)

func TestMain(m *testing.M) {
	// net/http lingers half a second over a connection whose request body was too long.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// start serves a backend called tower with its own client, both gone at the end of the test.
func start(t *testing.T, mode sim.Mode) (*sim.Server, *http.Client) {
	t.Helper()
	s, err := sim.Start(sim.Config{Name: "tower", Tokens: 4, Mode: mode}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return s, &http.Client{Transport: transport}
}

func post(ctx context.Context, t *testing.T, client *http.Client, url, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(req)
}

// ask posts a chat completion and returns status, headers and the whole body.
func ask(t *testing.T, client *http.Client, s *sim.Server, body string) (*http.Response, string) {
	t.Helper()
	resp, err := post(t.Context(), t, client, s.URL+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

const (
	streaming = `{"model":"m","stream":true}`
	unary     = `{"model":"m"}`
)

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		mode       sim.Mode
		body       string
		wantStatus int
		wantType   string
		wantInBody []string
	}{
		"an idle backend streams its name, a finish reason and DONE": {
			body: streaming, wantStatus: 200, wantType: "text/event-stream",
			wantInBody: []string{`"role":"assistant"`, `"content":"tower"`, `"content":" says"`, `"finish_reason":"stop"`, "data: [DONE]\n\n"},
		},
		"usage comes with a stream that asks for it": {
			body:       `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
			wantStatus: 200, wantType: "text/event-stream",
			wantInBody: []string{`"choices":[]`, `"completion_tokens":4`, "data: [DONE]\n\n"},
		},
		"an idle backend answers whole where no stream is asked for": {
			body: unary, wantStatus: 200, wantType: "application/json",
			wantInBody: []string{`"content":"tower says hello 4"`, `"model":"m"`, `"total_tokens":11`},
		},
		"max_tokens cuts the answer": {
			body:       `{"model":"m","max_tokens":2}`,
			wantStatus: 200, wantType: "application/json",
			wantInBody: []string{`"content":"tower says"`, `"finish_reason":"length"`},
		},
		"a slow backend answers too": {
			mode: sim.Slow, body: streaming, wantStatus: 200, wantType: "text/event-stream",
			wantInBody: []string{`"content":"tower"`, "data: [DONE]\n\n"},
		},
		"a failing backend answers 500": {
			mode: sim.Error, body: streaming, wantStatus: 500, wantType: "application/json",
			wantInBody: []string{"simulated failure"},
		},
		"a loading backend says so": {
			mode: sim.Loading, body: streaming, wantStatus: 503, wantType: "application/json",
			wantInBody: []string{"Loading model"},
		},
		"an error event comes in place of the first token": {
			mode: sim.ErrorEvent, body: streaming, wantStatus: 200, wantType: "text/event-stream",
			wantInBody: []string{`data: {"error":{`},
		},
		"an error body comes in place of a whole answer": {
			mode: sim.ErrorEvent, body: unary, wantStatus: 200, wantType: "application/json",
			wantInBody: []string{`{"error":{`},
		},
		"a body that is not JSON is refused": {
			body: `{"model":`, wantStatus: 400, wantType: "application/json",
			wantInBody: []string{"not valid JSON"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, client := start(t, tc.mode)
			resp, body := ask(t, client, s, tc.body)
			if resp.StatusCode != tc.wantStatus || resp.Header.Get("Content-Type") != tc.wantType {
				t.Errorf("got %d %s, want %d %s", resp.StatusCode, resp.Header.Get("Content-Type"), tc.wantStatus, tc.wantType)
			}
			for _, want := range tc.wantInBody {
				if !strings.Contains(body, want) {
					t.Errorf("body lacks %s:\n%s", want, body)
				}
			}
		})
	}
}

func TestRefuseSaysWhenToComeBack(t *testing.T) {
	s, client := start(t, sim.Refuse)
	resp, _ := ask(t, client, s, streaming)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("got %d with Retry-After %q, want 429 with 1", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}

func TestDownResetsTheConnection(t *testing.T) {
	s, client := start(t, sim.Down)
	resp, err := post(t.Context(), t, client, s.URL+"/v1/chat/completions", streaming)
	if err == nil {
		resp.Body.Close()
		t.Fatal("a backend that is down answered")
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want a reset", err)
	}
}

// seen waits until the backend's statistics satisfy ok: the end of a request is counted after its caller has seen it.
func seen(t *testing.T, s *sim.Server, ok func(sim.Stats) bool) {
	t.Helper()
	giveUp, look := time.After(time.Minute), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok(s.Stats()) {
		select {
		case <-look.C:
		case <-giveUp:
			t.Fatalf("never seen, last: %+v", s.Stats())
		}
	}
}

func TestBusySendsNothingUntilTheCallerLeaves(t *testing.T) {
	s, client := start(t, sim.Busy)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		resp, err := post(ctx, t, client, s.URL+"/v1/chat/completions", streaming)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	seen(t, s, func(got sim.Stats) bool { return got.InFlight == 1 })

	s.SetMode(sim.Idle) // does not come back for those that hang
	ask(t, client, s, unary)
	if got := s.Stats(); got.InFlight != 1 || got.Cancelled != 0 {
		t.Errorf("after the backend has become idle: %+v, want the old request still in flight", got)
	}

	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller of a busy backend got %v, want its own cancellation", err)
	}
	seen(t, s, func(got sim.Stats) bool { return got.InFlight == 0 && got.Cancelled == 1 })
}

func TestBusyHeadersSendsTheRoleAndThenNothing(t *testing.T) {
	s, client := start(t, sim.BusyHeaders)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp, err := post(ctx, t, client, s.URL+"/v1/chat/completions", streaming)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 4096)
	n, err := resp.Body.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), `"role":"assistant"`) {
		t.Errorf("first read: %q, %v, want the role chunk", buf[:n], err)
	}
	leave()
	seen(t, s, func(got sim.Stats) bool { return got.Cancelled == 1 && got.Tokens == 0 })
}

func TestCloseEndsWhatHangs(t *testing.T) {
	s, err := sim.Start(sim.Config{Name: "tower", Mode: sim.Busy}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ended := make(chan error, 1)
	go func() {
		resp, err := post(t.Context(), t, &http.Client{Transport: transport}, s.URL+"/v1/chat/completions", unary)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	seen(t, s, func(got sim.Stats) bool { return got.InFlight == 1 })
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the hanging request ended with an answer, want a cut connection")
	}
}

func TestStats(t *testing.T) {
	s, client := start(t, sim.Idle)
	ask(t, client, s, streaming)
	ask(t, client, s, `{"model":"m","stream":true,"max_tokens":1}`)
	ask(t, client, s, `{"model":"m","stream":true,"max_completion_tokens":1}`)
	get(t, client, s.URL+"/v1/models")
	seen(t, s, func(got sim.Stats) bool { return got.InFlight == 0 })

	var got sim.Stats
	if err := json.Unmarshal([]byte(get(t, client, s.URL+"/stats")), &got); err != nil {
		t.Fatal(err)
	}
	want := sim.Stats{
		Mode: sim.Idle, Requests: 3, Synthetic: 2, Tokens: 6,
		ByEndpoint: map[string]int{"/v1/chat/completions": 3, "/v1/models": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}

	resp, err := post(t.Context(), t, client, s.URL+"/stats/reset", "")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if diff := cmp.Diff(sim.Stats{Mode: sim.Idle}, s.Stats(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stats after the reset (-want +got):\n%s", diff)
	}
}

func TestModeIsSwitchedByBodyOrQuery(t *testing.T) {
	s, client := start(t, sim.Idle)
	tests := map[string]struct {
		url, body  string
		wantStatus int
		want       sim.Mode
	}{
		"by query":                             {url: "/mode?mode=busy", wantStatus: 200, want: sim.Busy},
		"by body, with the newline of a shell": {url: "/mode", body: "error-event\n", wantStatus: 200, want: sim.ErrorEvent},
		"an unknown name changes nothing":      {url: "/mode?mode=lazy", wantStatus: 400, want: sim.Refuse},
		"no name changes nothing":              {url: "/mode", wantStatus: 400, want: sim.Refuse},
		"an endless name changes nothing":      {url: "/mode", body: strings.Repeat("x", 4096), wantStatus: 400, want: sim.Refuse},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s.SetMode(sim.Refuse)
			resp, err := post(t.Context(), t, client, s.URL+tc.url, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != tc.wantStatus || s.Mode() != tc.want {
				t.Errorf("got %d and mode %s, want %d and %s", resp.StatusCode, s.Mode(), tc.wantStatus, tc.want)
			}
			if got := strings.TrimSpace(get(t, client, s.URL+"/mode")); got != string(tc.want) {
				t.Errorf("GET /mode says %s, want %s", got, tc.want)
			}
		})
	}
}

// Capacity is not health: the health endpoint is green in every mode, and a busy backend lists its models.
func TestHealthIsAlwaysGreen(t *testing.T) {
	s, client := start(t, sim.Idle)
	for _, mode := range []sim.Mode{sim.Idle, sim.Busy, sim.BusyHeaders, sim.Down, sim.Error, sim.Loading} {
		s.SetMode(mode)
		get(t, client, s.URL+"/health")
		if mode != sim.Down {
			get(t, client, s.URL+"/v1/models")
		}
	}
}

// get returns the body of a 200.
func get(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d, %v", url, resp.StatusCode, err)
	}
	return string(body)
}

// The other endpoints answer the same in their own dialects.
func TestDialects(t *testing.T) {
	tests := map[string]struct {
		path, body string
		want       []string // parts of the body, in this order
	}{
		"a text completion": {"completions", `{"model":"m","prompt":"x"}`,
			[]string{`"finish_reason":"stop"`, `"text":"tower says hello 4"`, `"object":"text_completion"`, `"total_tokens":11`}},
		"a text completion in a stream": {"completions", `{"model":"m","stream":true,"max_tokens":2}`,
			[]string{`"text":"tower"`, `"text":" says"`, `"finish_reason":"length"`, "data: [DONE]\n\n"}},
		"a response": {"responses", `{"model":"m","input":"x"}`,
			[]string{`"object":"response"`, `"text":"tower says hello 4","type":"output_text"`, `"status":"completed"`}},
		"a response in a stream": {"responses", `{"model":"m","input":"x","stream":true,"max_output_tokens":2}`,
			[]string{"event: response.created\n", `"delta":"tower"`, `"delta":" says"`, "event: response.incomplete\n", `"text":"tower says"`}},
		"a message": {"messages", `{"model":"m","max_tokens":9}`,
			[]string{`"text":"tower says hello 4"`, `"role":"assistant"`, `"stop_reason":"end_turn"`, `"type":"message"`}},
		"a message in a stream": {"messages", `{"model":"m","max_tokens":2,"stream":true}`,
			[]string{"event: message_start\n", "event: content_block_start\n", `"text":"tower"`, `"text":" says"`, "event: content_block_stop\n",
				`"stop_reason":"max_tokens"`, "event: message_stop\n"}},
		"an embedding for each input": {"embeddings", `{"model":"m","input":["a","bc"],"stream":true}`,
			[]string{`"embedding":[3,0]`, `"index":1`, `"object":"list"`}},
		"an embedding in base64": {"embeddings", `{"model":"m","input":"a","encoding_format":"base64"}`, []string{`"embedding":"AABAQAAAAAA="`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, client := start(t, sim.Idle)
			resp, err := post(t.Context(), t, client, s.URL+"/v1/"+tc.path, tc.body)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%d, %v: %s", resp.StatusCode, err, body)
			}
			rest := string(body)
			for _, want := range tc.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("body lacks %s behind what comes before it:\n%s", want, body)
				}
				rest = after
			}
		})
	}
}
