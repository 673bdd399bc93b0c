package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/table"
)

// held is what a process holds for its routes.
type held struct{ Goroutines, Connections, Series, Breakers int }

// D5: a thousand edits, of everything that state hangs on, leave nothing behind, while a stream runs that began before them.
func TestThousandReloadsLeakNothing(t *testing.T) {
	const reloads, asked = 1000, 20
	var connections atomic.Int64
	end := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch body, _ := io.ReadAll(req.Body); {
		case strings.Contains(string(body), `"stream":true`):
			_, _ = io.WriteString(w, c("one"))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-end:
			case <-req.Context().Done():
			}
			_, _ = io.WriteString(w, c("two")+fin+done)
		case strings.Contains(string(body), "fails"):
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, whole)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed:
			connections.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	defer s.CloseClientConnections() // Close would wait for streams that a test which fails has not let end
	nobody := says(t)
	// edit is the i-th table: another way to connect, other backends, limits and names.
	edit := func(i int) *table.Table {
		route := newRoute(nobody, nobody)
		for j, model := range []string{"fails", "works"} {
			b := &route.Chain[j]
			b.ID, b.BaseURL, b.Model, b.MaxInFlight = table.BackendID(fmt.Sprintf("%s-%d", model, i)), s.URL, fmt.Sprintf("%s-%d", model, i), 1+i%2
		}
		route.Timeouts.Connect = time.Minute + time.Duration(i)
		route.RateLimit = table.RateLimit{Requests: 1000, Per: time.Hour, Burst: 1000}
		other := *route
		other.Name = fmt.Sprintf("other-%d", i)
		other.Model = "ns/" + other.Name
		return table.New([]*table.Route{route, &other})
	}
	first := edit(0)
	r := newRig(t, first.Routes()[0])
	r.store.Set(first)
	resp := r.start(strings.Replace(streamed, "{", `{"x":"runs",`, 1))
	in := bufio.NewReader(resp.Body)
	began := readUntil(t, in, "data:")
	count := func() held {
		series, err := r.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		h := held{Goroutines: runtime.NumGoroutine(), Connections: int(connections.Load()), Breakers: len(r.breakers.Records())}
		for _, family := range series {
			h.Series += len(family.Metric)
		}
		return h
	}
	turn := func(i int) {
		r.store.Set(edit(i))
		if i%asked != 0 {
			return
		}
		for _, body := range []string{unary, strings.Replace(unary, "ns/m", fmt.Sprintf("ns/other-%d", i), 1)} {
			if got := r.post(body); got.status != http.StatusOK || got.header.Get("X-Spillway-Backend") != "b" {
				t.Fatalf("after %d edits: %d %s", i, got.status, got.body)
			}
		}
	}
	for i := range asked + 1 {
		turn(i)
	}
	before := count()
	for i := asked + 1; i <= reloads; i++ {
		turn(i)
	}
	var after held
	defer func() { t.Logf("before %+v, after %+v", before, after) }()
	waitFor(t, func() bool { // a few may still be closing
		after = count()
		return after.Goroutines <= before.Goroutines+5 && after.Connections <= before.Connections+2 && after.Series <= before.Series && after.Breakers <= before.Breakers
	})
	close(end)
	resp.Body = rest{in, resp.Body}
	if got := events(began + finish(resp).body); got != c("one")+c("two")+fin+done {
		t.Errorf("the stream from before them got %q", got)
	}
}
