package story

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/test/stack"
)

// comment is a heartbeat as a caller sees it.
type comment struct {
	State       string `json:"state"`
	Backend     string `json:"backend"`
	N           int    `json:"n"`
	FailingOver bool   `json:"failing_over"`
}

// call is one streamed chat completion, seen with the eyes of a caller that prints every line.
type call struct {
	body     io.ReadCloser
	lines    *bufio.Scanner
	status   string
	reason   string // X-Spillway-Reason
	comments []comment
	seen     []string // lines as received, without empty ones
	text     string
	complete bool // [DONE] was seen
	began    time.Time
	ended    time.Time
}

// open starts a streamed call through a proxy.
func open(ctx context.Context, p *stack.Proxy, maxTokens int) (*call, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"Say hello"}]}`,
		namespace+"/default", maxTokens)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	c := &call{began: time.Now()}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	c.body, c.lines = response.Body, bufio.NewScanner(response.Body)
	c.status, c.reason = response.Status, response.Header.Get("X-Spillway-Reason")
	return c, nil
}

// next reads one line; it returns false at the end of the stream.
func (c *call) next() bool {
	if !c.lines.Scan() {
		c.ended = time.Now()
		_ = c.body.Close() // read to its end, nothing is lost
		return false
	}
	line := c.lines.Text()
	if line != "" {
		c.seen = append(c.seen, line)
	}
	if data, ok := strings.CutPrefix(line, "data: "); ok {
		c.data(data)
	} else if text, ok := strings.CutPrefix(line, ": "); ok {
		var heartbeat comment
		if json.Unmarshal([]byte(text), &heartbeat) == nil {
			c.comments = append(c.comments, heartbeat)
		}
	}
	return true
}

func (c *call) data(data string) {
	if data == "[DONE]" {
		c.complete = true
		return
	}
	var chunk struct {
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal([]byte(data), &chunk) == nil && len(chunk.Choices) > 0 {
		c.text += chunk.Choices[0].Delta.Content
	}
}

// states lists what the comments told, as "attempt tower".
func (c *call) states() []string {
	var states []string
	for _, heartbeat := range c.comments {
		states = append(states, heartbeat.State+" "+heartbeat.Backend)
	}
	return states
}

// servedBy says which backend's tokens arrived.
func (c *call) servedBy() string {
	name, _, _ := strings.Cut(c.text, " ")
	return name
}

// call makes one streamed call through a proxy and reads it to its end.
func (s *Story) call(p *stack.Proxy) *call {
	c, err := s.tryCall(p)
	s.must(err)
	return c
}

func (s *Story) tryCall(p *stack.Proxy) (*call, error) {
	const fewTokens = 5
	c, err := open(s.ctx, p, fewTokens)
	if err != nil {
		return nil, err
	}
	for c.next() {
	}
	if err := c.lines.Err(); err != nil {
		return nil, err
	}
	if !c.complete {
		return nil, fmt.Errorf("%s without [DONE]:\n%s", c.status, strings.Join(c.seen, "\n"))
	}
	return c, nil
}

// showCall prints a call as curl would, shortened in the middle.
func (s *Story) showCall(p *stack.Proxy, number int, c *call) {
	fmt.Fprintf(s.out, "\n  $ curl -N %s/chat/completions -d '{\"model\":\"%s/default\",\"stream\":true,...}'   # proxy %d\n",
		p.URL(), namespace, number)
	const head, tail = 8, 2
	for i, line := range c.seen {
		switch {
		case i < head || i >= len(c.seen)-tail:
			fmt.Fprintf(s.out, "  %.150s\n", line)
		case i == head:
			fmt.Fprintln(s.out, "  ...")
		}
	}
}

// served makes one call and says which backend answered, for soon.
func (s *Story) served(p *stack.Proxy) func() (string, error) {
	return func() (string, error) {
		c, err := s.tryCall(p)
		if err != nil {
			return "", err
		}
		return c.servedBy(), nil
	}
}
