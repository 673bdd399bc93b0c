package telemetry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/internal/telemetry"
)

func route(model string, backends ...string) *table.Route {
	r := &table.Route{Namespace: "ns", Name: model, Model: model}
	for _, name := range backends {
		r.Chain = append(r.Chain, table.Backend{ID: table.BackendID(name), Name: name})
	}
	return r
}

// all registers every collector of the package and puts one sample into each.
func all() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	p := telemetry.NewProxy(reg)
	r := route("m", "tower")
	r.Pins = []table.Pin{{Name: "game-night", ExpiresAt: time.Unix(100, 0)}}
	series := p.Route(r)
	series.Request("chat_completions", 200)
	series.Heartbeat("attempt")
	series.RateLimited()
	b := series.Backend("tower")
	b.Attempt("success")
	b.Tokens(1, 2)
	p.Transition("ns", "tower", "Open", "Saturated")
	t := telemetry.NewTable(reg)
	t.Serving("spillway-table-00", "abc")
	m := telemetry.NewManager(reg)
	m.Compiled(time.Millisecond, map[string]int{"LLMRoute": 3})
	m.PublishFailed()
	m.CRDSkew("llmroutes.spillway.dev", 0, 0)
	reg.MustRegister(&telemetry.StateCollector{
		Table:   func() *table.Table { return table.New([]*table.Route{r}) },
		Breaker: func(table.BackendID) string { return "Open" },
		Now:     func() time.Time { return time.Unix(50, 0) },
	})
	return reg
}

func TestMetricsFollowPrometheusConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(all())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestDeclarationsAreWhatIsExposed(t *testing.T) {
	families, err := all().Gather()
	if err != nil {
		t.Fatal(err)
	}
	type seen struct{ Name, Type, Help, Labels string }
	var got, want []seen
	for _, f := range families {
		var labels []string
		for _, pair := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		slices.Sort(labels)
		got = append(got, seen{f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp(), strings.Join(labels, ",")})
	}
	for _, m := range telemetry.Metrics() {
		labels := slices.Sorted(slices.Values(m.Labels))
		want = append(want, seen{m.Name, string(m.Type), m.Help, strings.Join(labels, ",")})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-declared +exposed):\n%s", diff)
	}
}

func TestNothingOfTheDesignIsMissing(t *testing.T) {
	want := []string{
		"llm_requests_total{logical_model,endpoint,code}", "llm_request_duration_seconds{logical_model,backend}",
		"llm_time_to_first_token_seconds{logical_model,backend}", "llm_attempts_total{logical_model,backend,outcome}",
		"llm_backend_saturated_total{logical_model,backend}", "llm_breaker_state{namespace,backend,state}",
		"llm_breaker_transitions_total{namespace,backend,to,reason}", "llm_stream_heartbeats_total{logical_model,state}",
		"llm_rate_limited_total{logical_model}", "llm_queue_depth{logical_model,backend}", "llm_queue_rejected_total{}",
		"llm_queue_wait_seconds{}", "llm_tokens_total{logical_model,backend,kind}", "llm_in_flight_requests{}",
		"llm_proxy_overhead_seconds{}", "spillway_table_revision_info{shard,revision}", "spillway_table_reload_total{result}",
		"spillway_table_apply_seconds{}", "spillway_report_adoption_seconds{}", "spillway_pin_active{namespace,pin,route}",
		"spillway_pin_end_timestamp_seconds{namespace,pin,route}", "llm_backend_info{logical_model,backend,regime}",
		"spillway_compile_duration_seconds{}", "spillway_compile_objects{kind}", "spillway_table_publish_failures_total{}",
		"spillway_crd_missing_fields{crd}",
		"spillway_crd_unknown_fields{crd}",
	}
	declared := map[string]bool{}
	for _, m := range telemetry.Metrics() {
		declared[m.Name+"{"+strings.Join(m.Labels, ",")+"}"] = true
	}
	for _, metric := range want {
		if !declared[metric] {
			t.Errorf("%s is not declared", metric)
		}
		delete(declared, metric)
	}
	for metric := range declared {
		t.Errorf("%s is declared and not in the design", metric)
	}
}

func TestRetainDeletesWhatLeftTheTable(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := telemetry.NewProxy(reg)
	kept, gone := route("kept", "tower", "hosted"), route("gone", "hosted")
	for _, r := range []*table.Route{kept, gone} {
		series := p.Route(r)
		series.Request("chat_completions", 200)
		for i := range r.Chain {
			series.Backend(r.Chain[i].Name).Attempt("Success")
			p.Transition("ns", r.Chain[i].Name, "Open", "Saturated")
		}
	}
	late, attempt := p.Route(gone), p.Route(gone).Backend("hosted")
	leaving := p.Route(kept).Backend("hosted")
	p.Retain(table.New([]*table.Route{route("kept", "tower")}))
	late.Backend("hosted").FirstToken(time.Second) // requests that still run on the old table
	late.Backend("never asked before").Attempt("Success")
	late.Request("chat_completions", 200)
	late.Heartbeat("keepalive")
	late.RateLimited()
	attempt.Attempt("Success")
	leaving.Attempt("Success")
	leaving.Duration(time.Second)

	want := `
# HELP llm_attempts_total Attempts at a backend, by how they ended.
# TYPE llm_attempts_total counter
llm_attempts_total{backend="tower",logical_model="kept",outcome="Success"} 1
# HELP llm_breaker_transitions_total Changes of a breaker's state seen by this proxy, its own and adopted ones.
# TYPE llm_breaker_transitions_total counter
llm_breaker_transitions_total{backend="tower",namespace="ns",reason="Saturated",to="Open"} 1
# HELP llm_requests_total Requests answered, by logical model (empty where the request named none that exists), endpoint and HTTP status.
# TYPE llm_requests_total counter
llm_requests_total{code="200",endpoint="chat_completions",logical_model="kept"} 1
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(want), "llm_attempts_total", "llm_breaker_transitions_total", "llm_requests_total",
		"llm_stream_heartbeats_total", "llm_rate_limited_total")
	if err != nil {
		t.Error(err)
	}
	if n, _ := testutil.GatherAndCount(reg, "llm_time_to_first_token_seconds"); n != 1 {
		t.Errorf("series of time to first token = %d, want that of kept/tower alone", n)
	}
}

func TestStatesAreThoseOfTheMoment(t *testing.T) {
	r := route("m", "tower", "hosted")
	r.Pins = []table.Pin{
		{Name: "now", StartsAt: time.Unix(10, 0), ExpiresAt: time.Unix(20, 0)},
		{Name: "over", ExpiresAt: time.Unix(10, 0)},
	}
	r.Chain[0].Regime = "contended"
	namesake := route("n", "tower")
	namesake.Chain[0].ID = "other"
	states := map[table.BackendID]string{"tower": "Closed", "other": "Open", "hosted": "HalfOpen"}
	c := &telemetry.StateCollector{
		Table:   func() *table.Table { return table.New([]*table.Route{r, namesake}) },
		Breaker: func(id table.BackendID) string { return states[id] },
		Now:     func() time.Time { return time.Unix(10, 0) },
	}
	want := `
# HELP llm_backend_info 1 for each backend of a chain, with its regime, to join with what is counted by backend.
# TYPE llm_backend_info gauge
llm_backend_info{backend="hosted",logical_model="m",regime=""} 1
llm_backend_info{backend="tower",logical_model="m",regime="contended"} 1
llm_backend_info{backend="tower",logical_model="n",regime=""} 1
# HELP llm_breaker_state 1 for the state that the backend's breaker is in, 0 for the others; where several backends of a namespace share a name, the worst.
# TYPE llm_breaker_state gauge
llm_breaker_state{backend="hosted",namespace="ns",state="Closed"} 0
llm_breaker_state{backend="hosted",namespace="ns",state="HalfOpen"} 1
llm_breaker_state{backend="hosted",namespace="ns",state="Open"} 0
llm_breaker_state{backend="tower",namespace="ns",state="Closed"} 0
llm_breaker_state{backend="tower",namespace="ns",state="HalfOpen"} 0
llm_breaker_state{backend="tower",namespace="ns",state="Open"} 1
# HELP spillway_pin_active 1 while a pin is in force on a route.
# TYPE spillway_pin_active gauge
spillway_pin_active{namespace="ns",pin="now",route="m"} 1
# HELP spillway_pin_end_timestamp_seconds When a pin that is in force on a route ends.
# TYPE spillway_pin_end_timestamp_seconds gauge
spillway_pin_end_timestamp_seconds{namespace="ns",pin="now",route="m"} 20
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestAccessLineHoldsWhatIsKnown(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	cases := map[string]struct {
		access telemetry.Access
		want   string
	}{
		"an answered request": {
			access: telemetry.Access{RequestID: "r1", Route: "ns/m", Endpoint: "chat_completions", Stream: true, Code: 200, Caller: "ann \"<&>", Backend: "hosted",
				Attempts: 2, Reason: "saturated", TTFT: 1500 * time.Microsecond, Duration: 2 * time.Millisecond, BytesIn: 10, BytesOut: 20,
				Prompt: 3, Completed: 4, Hint: "tower", HintApplied: "applied"},
			want: `{"time":"1970-01-01T00:00:00Z","level":"INFO","msg":"request","id":"r1","route":"ns/m","endpoint":"chat_completions","stream":true,"code":200,"attempts":2,"duration_us":2000,"bytes_in":10,"bytes_out":20,"caller":"ann \"<&>","backend":"hosted","reason":"saturated","hint":"tower","hint_applied":"applied","ttft_us":1500,"prompt_tokens":3,"completion_tokens":4}` + "\n",
		},
		"a refused request": {
			access: telemetry.Access{RequestID: "r2", Endpoint: "embeddings", Code: 404, Error: "model_not_found"},
			want:   `{"time":"1970-01-01T00:00:00Z","level":"INFO","msg":"request","id":"r2","route":"","endpoint":"embeddings","stream":false,"code":404,"attempts":0,"duration_us":0,"bytes_in":0,"bytes_out":0,"error":"model_not_found"}` + "\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			telemetry.NewAccessLog(&out).Write(at, &tc.access)
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

// slow gathers what was written in pieces, and holds each write until it is let go.
type slow struct {
	gate chan struct{}
	out  strings.Builder
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.gate
	return s.out.Write(p)
}

func TestBufferedWriterLosesNothing(t *testing.T) {
	sink := &slow{gate: make(chan struct{})}
	w := telemetry.NewBufferedWriter(sink)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const lines = 3000 // more than it holds: writers have to wait
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range lines {
			if _, err := w.Write(line); err != nil {
				t.Error(err)
			}
		}
	}()
	sink.gate <- struct{}{} // the first write is under way only now; what follows piles up
	close(sink.gate)
	<-written
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("after close\n")); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(sink.out.String(), "\n"), "\n")
	if len(got) != lines+1 || got[lines] != "after close" || slices.Contains(got[:lines], "") {
		t.Errorf("%d lines arrived, want %d whole ones and the one after Close", len(got), lines)
	}
}
