//go:build linux

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	streams      = 50  // at any time
	streamTokens = 100 // of 200 ms each: 20 s
	perSecond    = 100 // short requests of each kind: over connections that are kept, and over a fresh one each
)

// load is callers that go on until they are told to stop. Nothing that they see may be less than whole.
type load struct {
	url   string
	began time.Time
	stop  context.CancelFunc // lets what is running end by itself
	wg    sync.WaitGroup

	mu       sync.Mutex
	counts   map[string]int // whole answers by kind
	failures []string
}

// startLoad lets callers ask the route steady at url until wait is called.
func startLoad(ctx context.Context, url string) *load {
	stopping, stop := context.WithCancel(ctx)
	l := &load{url: url, began: time.Now(), stop: stop, counts: map[string]int{}}
	for i := range streams {
		l.wg.Go(func() {
			// Spread over one length, so that at any time some are young and some are nearly done.
			for next := time.After(time.Duration(i) * 20 * time.Second / streams); pause(stopping, next); next = time.After(0) {
				l.record("stream", askStream(ctx, http.DefaultTransport, url, streamTokens))
			}
		})
	}
	l.wg.Go(func() { l.short(ctx, stopping, "kept", &http.Transport{MaxIdleConnsPerHost: perSecond}) })
	l.wg.Go(func() { l.short(ctx, stopping, "fresh", &http.Transport{DisableKeepAlives: true}) })
	return l
}

// pause waits for next; false says that the load is to stop.
func pause(stopping context.Context, next <-chan time.Time) bool {
	select {
	case <-stopping.Done():
		return false
	case <-next:
		return stopping.Err() == nil
	}
}

// short starts perSecond requests a second, whatever becomes of those before.
func (l *load) short(ctx, stopping context.Context, kind string, transport *http.Transport) {
	defer transport.CloseIdleConnections()
	ticker := time.NewTicker(time.Second / perSecond)
	defer ticker.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for pause(stopping, ticker.C) {
		wg.Go(func() { l.record(kind, askShort(ctx, transport, l.url)) })
	}
}

func (l *load) record(kind string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.counts[kind]++
		return
	}
	l.failures = append(l.failures, fmt.Sprintf("%s, at %.1f s: %v", kind, time.Since(l.began).Seconds(), err))
}

// wait stops the load and fails the test where a single answer was not whole.
func (l *load) wait(t *testing.T) {
	t.Helper()
	l.stop()
	l.wg.Wait()
	t.Logf("whole answers in %.0f s: %v", time.Since(l.began).Seconds(), l.counts)
	if len(l.failures) > 0 {
		t.Errorf("%d were not, the first of them:\n%s", len(l.failures), strings.Join(l.failures[:min(20, len(l.failures))], "\n"))
	}
	for _, kind := range []string{"stream", "kept", "fresh"} {
		if l.counts[kind] == 0 {
			t.Errorf("no request of kind %q was made", kind)
		}
	}
}

// askStream makes one streamed call and reads it to its end.
func askStream(ctx context.Context, transport http.RoundTripper, url string, tokens int) error {
	response, err := post(ctx, transport, url, streamBody(tokens))
	if err != nil {
		return err
	}
	return errors.Join(readStream(response.Body, tokens), response.Body.Close())
}

func streamBody(tokens int) string {
	return fmt.Sprintf(`{"model":"sirens-echo/steady","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"go on"}]}`, tokens)
}

// readStream reads to the end; a whole stream has every token and says that it is done.
func readStream(body io.Reader, tokens int) error {
	var got int
	var last string
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		if last = data; strings.Contains(data, `"content":"`) && !strings.Contains(data, `"content":""`) {
			got++
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("after %d tokens: %w", got, err)
	}
	if got != tokens || last != "[DONE]" {
		return fmt.Errorf("%d tokens of %d, and at last %q", got, tokens, last)
	}
	return nil
}

func askShort(ctx context.Context, transport http.RoundTripper, url string) error {
	response, err := post(ctx, transport, url, `{"model":"sirens-echo/steady","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// post asks without retries: what goes wrong once is seen.
func post(ctx context.Context, transport http.RoundTripper, url, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.GetBody = nil
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return nil, errors.Join(fmt.Errorf("%s: %s", response.Status, said), response.Body.Close())
	}
	return response, nil
}
