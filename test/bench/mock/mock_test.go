package mock

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func post(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestModelChoosesTheAnswer(t *testing.T) {
	cases := map[string]struct {
		body       string
		wantStatus int
		wantChunks int
		wantEnd    string
	}{
		"a completion":                    {body: `{"model":"ns/unary"}`, wantStatus: 200, wantChunks: 1, wantEnd: `"mock"}`},
		"a stream":                        {body: `{"model":"ns/s3x0","stream":true}`, wantStatus: 200, wantChunks: 4, wantEnd: "data: [DONE]\n\n"},
		"a stream's model without stream": {body: `{"model":"s3x0"}`, wantStatus: 200, wantChunks: 1, wantEnd: `"mock"}`},
		"an unknown model":                {body: `{"model":"gpt"}`, wantStatus: 400, wantEnd: "}\n"},
		"a body that is no JSON":          {body: `model`, wantStatus: 400, wantEnd: "}\n"},
	}
	server := httptest.NewServer(new(Backend))
	t.Cleanup(server.Close)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			response := post(t, t.Context(), server.URL, tc.body)
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			chunks := strings.Count(string(body), `"content":"`)
			if response.StatusCode != tc.wantStatus || chunks != tc.wantChunks || !strings.HasSuffix(string(body), tc.wantEnd) {
				t.Errorf("status %d with %d contents: %s", response.StatusCode, chunks, body)
			}
		})
	}
}

func TestSilentStagesSayWhatTheirNameSays(t *testing.T) {
	cases := map[string]string{
		"headers-only": "",
		"role-only":    roleChunk,
		"comments":     ": busy\n\n",
	}
	for stage, want := range cases {
		t.Run(stage, func(t *testing.T) {
			server := httptest.NewServer(new(Backend))
			t.Cleanup(server.Close)
			response := post(t, t.Context(), server.URL, `{"model":"`+stage+`","stream":true}`)
			got := make([]byte, len(want))
			if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != want {
				t.Errorf("got %q (%v), want %q", got, err, want)
			}
			response.Body.Close()
		})
	}
}

func TestStatsShowCallersThatLeave(t *testing.T) {
	server := httptest.NewServer(new(Backend))
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	post(t, ctx, server.URL, `{"model":"role-only","stream":true}`)
	stats := func() (s Stats) {
		response, err := http.Get(server.URL + "/stats")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := stats(); s.Active != 1 || s.Left != 0 {
		t.Errorf("before: %+v, want one active and none left", s)
	}
	leave()
	for s := stats(); s.Left != 1 || s.Active != 0 || s.LeftAt == 0; s = stats() {
		if t.Context().Err() != nil {
			t.Fatal("the backend sees nobody leave")
		}
	}
}
