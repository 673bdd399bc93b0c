package stack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
)

// Backend is a simulated OpenAI-compatible server, see hack/simbackend.
type Backend struct {
	*Process
	Addr string // host:port
}

// BackendStats is what a simulated backend has seen since it started.
type BackendStats struct {
	Requests  int `json:"requests"`  // all requests to an inference endpoint
	Synthetic int `json:"synthetic"` // those of them that asked for a single token
	InFlight  int `json:"inFlight"`
	Cancelled int `json:"cancelled"` // callers that left before the end
}

// URL is the backend's base URL as a route's chain names it.
func (b *Backend) URL() string { return "http://" + b.Addr + "/v1" }

// SetMode switches the backend's behaviour: idle, busy, down, error and so on.
func (b *Backend) SetMode(ctx context.Context, mode string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.Addr+"/mode?mode="+url.QueryEscape(mode), nil)
	if err != nil {
		return err
	}
	return do(request, nil)
}

// Stats asks the backend what it has seen.
func (b *Backend) Stats(ctx context.Context) (stats BackendStats, err error) {
	err = get(ctx, "http://"+b.Addr+"/stats", &stats)
	return stats, err
}

// listeningOn is how a simulated backend says its address.
var listeningOn = regexp.MustCompile(`listening on http://(127\.0\.0\.1:\d+)`)

func (s *Stack) startBackends(ctx context.Context) error {
	for name, listen := range s.Options.Backends {
		b := &Backend{}
		listening := make(chan struct{})
		process, err := start(spec{name: name, path: s.binary("simbackend"), logDir: s.logs(),
			args: []string{"--name", name, "--listen", listen, "--tokens", strconv.Itoa(s.Tokens)},
			onLine: func(line []byte) {
				if said := listeningOn.FindSubmatch(line); b.Addr == "" && said != nil {
					b.Addr = string(said[1])
					close(listening)
				}
			}})
		if err != nil {
			return err
		}
		b.Process = process
		s.Backends[name] = b
		if err := process.await(ctx, listening, "listening"); err != nil {
			return err
		}
	}
	return nil
}

func get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return do(request, into)
}

func do(request *http.Request, into any) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, response.Status, body)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(body, into)
}

// FirstRoute is the namespace and the route of the pages, over the simulated backends tower and hosted; saturation is what its
// block of that name holds, since a person and a suite have not the same patience.
func (s *Stack) FirstRoute(saturation string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: sirens-echo}
---
apiVersion: spillway.dev/v1alpha1
kind: LLMRoute
metadata: {name: default, namespace: sirens-echo}
spec:
  chain:
  - {name: tower, url: %q, model: "ornith:35b", regime: contended}
  - {name: hosted, url: %q, model: deepseek-v4, regime: hosted}
  saturation: {%s}
  rateLimit: {requests: 20, per: 1s, burst: 20}
`, s.Backends["tower"].URL(), s.Backends["hosted"].URL(), saturation)
}
