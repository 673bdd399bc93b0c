package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/test/stack"
)

const (
	// Edits are this far apart, after all proxies have reported the last one: 200 reports are most of what an edit costs.
	betweenEdits    = 500 * time.Millisecond
	betweenOpenings = 150 * time.Millisecond
	// patience is how long a change may take before it counts as lost.
	patience = 30 * time.Second
)

// edit gives routes another model and takes the time until each real proxy serves it.
func (b *bench) edit(ctx context.Context) error {
	compiled, err := b.compiled(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var took, answered, published []time.Duration
	for n := range b.samples {
		model := fmt.Sprintf("edited-%d", n)
		route := b.route(n, 1)
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"model":%q}}`, model))
		changes := b.fleet.count()
		began := time.Now()
		var wait sync.WaitGroup
		errs := make([]error, len(b.stack.Proxies))
		for i, p := range b.stack.Proxies {
			wait.Go(func() {
				errs[i] = served(ctx, p, model)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
		}
		err := b.api.Patch(ctx, route, patch)
		answered = append(answered, time.Since(began))
		wait.Wait()
		for _, e := range append(errs, err) {
			if e != nil {
				return e
			}
		}
		if err := errors.Join(b.fleet.caughtUp(ctx, changes), pause(ctx, betweenEdits)); err != nil {
			return err
		}
		published = append(published, b.fleet.changedAt().Sub(began))
	}
	b.note("Of an edit's time, p50 from its beginning: the API server answered after %.0f ms, and its watches told of the new shard after %.0f ms.",
		milliseconds(quantile(answered, 0.5)), milliseconds(quantile(published, 0.5)))
	b.results[keyEditP50], b.results[keyEditP99] = milliseconds(quantile(took, 0.5)), milliseconds(quantile(took, 0.99))
	after, err := b.compiled(ctx)
	if err != nil {
		return err
	}
	b.results[keyRecompile] = 1000 * (after.sum - compiled.sum) / (after.count - compiled.count)
	return b.settled(ctx)
}

// served waits until a proxy knows a model.
func served(ctx context.Context, p *stack.Proxy, model string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+"/models/"+model, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("%s does not serve %s: %w", p.Name, model, err)
		}
	}
}

// open lets calls meet a backend that says it is full, each another one. When its breaker opened and when the other proxy
// adopted that, the proxies' logs say; when status said so, the watch.
func (b *bench) open(ctx context.Context) error {
	var mu sync.Mutex
	shown := map[string]time.Time{}
	b.routes.tell(func(r *v1alpha1.LLMRoute) {
		mu.Lock()
		defer mu.Unlock()
		if _, before := shown[r.Namespace]; r.Name == routeName(0) && r.Status.State == v1alpha1.RouteSaturated && !before {
			shown[r.Namespace] = time.Now()
		}
	})
	defer b.routes.tell(nil)
	for n := range b.samples {
		p := b.stack.Proxies[n%len(b.stack.Proxies)]
		if err := call(ctx, p, namespaceOf(n)+"/"+routeName(0)); err != nil {
			return err
		}
		if err := pause(ctx, betweenOpenings); err != nil {
			return err
		}
	}
	err := b.routes.await(ctx, b.samples, func(r *v1alpha1.LLMRoute) bool {
		return r.Name == routeName(0) && r.Status.State == v1alpha1.RouteSaturated
	})
	if err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	return b.openings(shown)
}

// openings notes how long each opening took to be adopted, and to be shown at the time that is given for its namespace.
func (b *bench) openings(shown map[string]time.Time) error {
	opened, adopted, err := b.transitions()
	if err != nil {
		return err
	}
	if len(opened) != b.samples {
		return fmt.Errorf("%d breakers opened, want %d", len(opened), b.samples)
	}
	var adoption, status []time.Duration
	for namespace, at := range opened {
		if adopted[namespace].IsZero() {
			return fmt.Errorf("an opening in %s was adopted by nobody", namespace)
		}
		adoption = append(adoption, adopted[namespace].Sub(at))
		status = append(status, shown[namespace].Sub(at))
	}
	b.results[keyAdoptP50], b.results[keyAdoptP99] = milliseconds(quantile(adoption, 0.5)), milliseconds(quantile(adoption, 0.99))
	b.results[keyStatusP99] = milliseconds(quantile(status, 0.99))
	return nil
}

// call sends one request and wants an answer.
func call(ctx context.Context, p *stack.Proxy, model string) error {
	body := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", p.Name, response.Status, answer)
	}
	return err
}

// transitions reads from the proxies' logs when the first backend of each namespace was opened, and when that was adopted.
func (b *bench) transitions() (opened, adopted map[string]time.Time, err error) {
	opened, adopted = map[string]time.Time{}, map[string]time.Time{}
	for _, p := range b.stack.Proxies {
		log, err := os.Open(p.LogPath)
		if err != nil {
			return nil, nil, err
		}
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct {
				Time               time.Time
				Msg, To, Namespace string
				Backends           []string
				Adopted            bool
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "breaker" || line.To != "Open" || !slices.Contains(line.Backends, "tower") {
				continue
			}
			if line.Adopted {
				adopted[line.Namespace] = line.Time
			} else {
				opened[line.Namespace] = line.Time
			}
		}
		if err := log.Close(); err != nil {
			return nil, nil, err
		}
	}
	return opened, adopted, nil
}

// quantile returns the smallest value that a share q of all does not exceed (nearest rank).
func quantile(values []time.Duration, q float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
