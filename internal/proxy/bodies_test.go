package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

// An answer that is only announced takes no more of the budget for bodies than a small one.
func TestAnnouncedAnswersDoNotSpendTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, []string{"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{"}, func(*table.Route) {})
		b.proxy.memory.limit = 4 << 20
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Second)
		defer leave()
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				if w, after := b.ask(ctx, false); after != 10*time.Second {
					t.Errorf("after %s: %d %s", after, w.Code, w.Body)
				}
			})
		}
		callers.Wait()
	})
}

// A backend that is given up is given up for that, whatever there is room for then.
func TestSilentBackendIsLeftWhenTheBudgetForBodiesIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head, _, _ := strings.Cut(oneToken, "data:")
		b := newBubble(t, []string{head, oneToken + "data: [DONE]\n\n"}, func(r *table.Route) {
			r.Chain[0].Saturation.SlowAfter = 10 * time.Second
		})
		time.AfterFunc(time.Second, func() { b.proxy.memory.used.Store(b.proxy.memory.limit) })
		w, after := b.ask(t.Context(), true)
		if !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") || after != 10*time.Second {
			t.Errorf("%d after %s: %s", w.Code, after, w.Body)
		}
	})
}

// What a probe has read counts, whatever its last read ended with.
func TestProbeTakesATokenThatCameWithTheEnd(t *testing.T) {
	_, token, _ := strings.Cut(oneToken, "\r\n\r\n")
	if o := judgeEvents(nil, []byte("data: {}\n\n"+token), io.EOF, openai.ChatCompletions); o.Class != Success {
		t.Errorf("%s: %s", o.Class, o.Cause)
	}
}

// A fault of this proxy says nothing of the backend that it probes.
func TestPanicWithinAProbeIsNoEvidence(t *testing.T) {
	var log strings.Builder
	p := &Proxy{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	u := upstream{waiter: prober{t.Context()}, request: func(context.Context) *http.Request { panic("SECRET") }}
	if o := p.firstTokenOf(&u, openai.ChatCompletions); o.evidence().Kind != breaker.Neutral {
		t.Errorf("evidence %+v", o.evidence())
	}
	if text := log.String(); !strings.Contains(text, "panic in a request") || strings.Contains(text, "SECRET") {
		t.Errorf("log %s", text)
	}
}
