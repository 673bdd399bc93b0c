package fleet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
	"github.com/spillway-dev/spillway/test/crd"
)

func TestRecordsSurviveTheReport(t *testing.T) {
	want := []breaker.Record{
		{ID: "a", State: breaker.Closed, Saturations: 1, LastGood: 4},
		{ID: "b", State: breaker.Open, Reason: breaker.ReasonSaturated, Since: time.Unix(1700000000, 123000).UTC(),
			Remaining: 14*time.Minute + 59*time.Second + 5*time.Millisecond, Epoch: 7, Failures: 2, Refusals: 3, Extensions: 1, Message: "no first token within 20s",
			Endpoint: "/v1/embeddings"},
		{ID: "c", State: breaker.HalfOpen, Reason: breaker.ReasonFailing, Epoch: 3, AwaitsCaller: true},
	}
	if diff := cmp.Diff(want, toRecords(ToReports(want), 0)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestReportStaysWithinItsSchema(t *testing.T) {
	schema, err := crd.Read("proxyreports")
	if err != nil {
		t.Fatal(err)
	}
	large := func(id int, state breaker.State) breaker.Record {
		r := breaker.Record{
			ID: table.BackendID(fmt.Sprintf("%032d", id)), State: state, Reason: breaker.ReasonQuota, Since: time.Unix(1700000000, 123000),
			Remaining: 14*time.Minute + 59*time.Second + 999*time.Millisecond, Epoch: 1 << 32, LastGood: 1 << 32, Saturations: 1000, Failures: 1000,
			Endpoint: "/v1/chat/completions", Message: strings.Repeat("é", 300),
		}
		for e := range 20 {
			r.Endpoints = append(r.Endpoints, breaker.EndpointRecord{Endpoint: fmt.Sprintf("/v1/e%02d", e), Remaining: 30 * time.Second})
		}
		return r
	}
	var records []breaker.Record
	for i := range 2 * maxBreakers {
		state := breaker.Closed
		if i%4 == 3 {
			state = breaker.Open
		}
		records = append(records, large(i, state))
	}
	reports := ToReports(records)
	report := &v1alpha1.ProxyReport{Status: v1alpha1.ProxyReportStatus{Breakers: reports, RenewTime: metav1.NewMicroTime(time.Unix(1700000000, 0))}}
	faults, err := schema.Faults(report)
	if err != nil || len(faults) > 0 {
		t.Fatalf("an API server would refuse it: %q %v", faults, err)
	}
	data, err := json.Marshal(report)
	if err != nil || len(data) > 1<<20 {
		t.Errorf("the report has %d bytes, want no more than an API server stores with its own notes: %v", len(data), err)
	}
	open := 0
	for _, r := range reports {
		if r.State == v1alpha1.BackendOpen {
			open++
		}
	}
	if len(reports) != maxBreakers || open != maxBreakers/2 {
		t.Errorf("%d breakers, of them %d open, want %d with all %d that are", len(reports), open, maxBreakers, maxBreakers/2)
	}
	if !slices.IsSortedFunc(reports, func(a, b v1alpha1.BreakerReport) int { return strings.Compare(a.ID, b.ID) }) {
		t.Error("the breakers are not sorted by id")
	}

	first := ToReports(records[:1])[0]
	if len([]rune(first.Message)) != maxMessage || len(first.Endpoints) != maxEndpoints || first.Endpoints[0].Endpoint != "e00" {
		t.Errorf("of one breaker all is told that there is room for, got %d endpoints and a message of %d bytes", len(first.Endpoints), len(first.Message))
	}
}

func TestWhereThereIsNoRoomLessIsSaid(t *testing.T) {
	const message, endpoints = 100, 2
	cases := map[string]struct {
		spare                 int
		wantMessage, wantEnds int
		wantLeft              int
	}{
		"room for all":               {1000, message, endpoints, 1000 - message - endpoints*endpointBytes},
		"room to the last byte":      {message + endpoints*endpointBytes, message, endpoints, 0},
		"no room for the endpoints":  {message + endpoints*endpointBytes - 1, message, 0, endpoints*endpointBytes - 1},
		"room for the message alone": {message, message, 0, 0},
		"no room":                    {message - 1, 0, 0, message - 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := v1alpha1.BreakerReport{Message: strings.Repeat("m", message), Endpoints: make([]v1alpha1.EndpointReport, endpoints)}
			left := trim(&r, tc.spare)
			want := []int{tc.wantMessage, tc.wantEnds, tc.wantLeft}
			if diff := cmp.Diff(want, []int{len(r.Message), len(r.Endpoints), left}); diff != "" {
				t.Errorf("message, endpoints, room left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnInstantThatCannotBeWrittenIsForgotten(t *testing.T) {
	at := func(text string) *metav1.MicroTime {
		instant, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return &metav1.MicroTime{Time: instant}
	}
	cases := map[string]struct {
		since  *metav1.MicroTime
		offset time.Duration
		want   time.Time
	}{
		"one of our clock":         {at("2026-08-13T21:00:00Z"), 0, at("2026-08-13T21:00:00Z").Time},
		"one of another clock":     {at("2026-08-13T21:00:00Z"), time.Hour, at("2026-08-13T22:00:00Z").Time},
		"none":                     {nil, time.Hour, time.Time{}},
		"one at the end of time":   {at("9999-12-31T23:59:59Z"), time.Hour, time.Time{}},
		"one before the beginning": {at("0001-01-01T00:00:01Z"), -time.Hour, time.Time{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			records := toRecords([]v1alpha1.BreakerReport{{ID: "x", State: v1alpha1.BackendOpen, Epoch: 1, Since: tc.since}}, tc.offset)
			if diff := cmp.Diff(tc.want, records[0].Since); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSenselessEvidenceIsLeftOut(t *testing.T) {
	cases := map[string]v1alpha1.BreakerReport{
		"a state that no breaker has":   {ID: "x", State: v1alpha1.BackendExcluded},
		"a negative epoch":              {ID: "x", State: v1alpha1.BackendOpen, Epoch: -1},
		"a negative count":              {ID: "x", State: v1alpha1.BackendClosed, Failures: -1},
		"another negative count":        {ID: "x", State: v1alpha1.BackendClosed, Saturations: -1},
		"a negative number of refusals": {ID: "x", State: v1alpha1.BackendOpen, Refusals: -1},
		"or of extensions":              {ID: "x", State: v1alpha1.BackendOpen, Extensions: -1},
		"a negative good answer":        {ID: "x", State: v1alpha1.BackendClosed, LastGood: -1, Epoch: 1},
		"a time that cannot be read":    {ID: "x", State: v1alpha1.BackendOpen, Remaining: "soon"},
	}
	for name, report := range cases {
		t.Run(name, func(t *testing.T) {
			good := v1alpha1.BreakerReport{ID: "y", State: v1alpha1.BackendOpen, Epoch: 1}
			want := []breaker.Record{{ID: "y", State: breaker.Open, Epoch: 1}}
			if diff := cmp.Diff(want, toRecords([]v1alpha1.BreakerReport{report, good}, 0)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownEndpointIsForgotten(t *testing.T) {
	report := v1alpha1.BreakerReport{ID: "x", State: v1alpha1.BackendOpen, Endpoint: "../admin"}
	want := []breaker.Record{{ID: "x", State: breaker.Open}}
	if diff := cmp.Diff(want, toRecords([]v1alpha1.BreakerReport{report}, 0)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestAgedRecordsHaveLessTimeLeft(t *testing.T) {
	in := []breaker.Record{{ID: "a", Remaining: time.Minute}, {ID: "b", Remaining: time.Second}}
	want := []breaker.Record{{ID: "a", Remaining: 50 * time.Second}, {ID: "b"}}
	if diff := cmp.Diff(want, aged(in, 10*time.Second)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if in[0].Remaining != time.Minute {
		t.Error("the original was changed")
	}
}

func TestTellsTheSame(t *testing.T) {
	base := func() v1alpha1.ProxyReportStatus {
		return v1alpha1.ProxyReportStatus{
			Ready:  true,
			Tables: []v1alpha1.TableRevision{{Shard: 1, Revision: "r"}},
			Breakers: []v1alpha1.BreakerReport{{ID: "a", State: v1alpha1.BackendOpen, Remaining: "10s", Epoch: 1,
				Endpoints: []v1alpha1.EndpointReport{{Endpoint: "chat", Remaining: "5s"}}}},
		}
	}
	cases := map[string]struct {
		change func(*v1alpha1.ProxyReportStatus)
		want   bool
	}{
		"nothing changed":          {func(*v1alpha1.ProxyReportStatus) {}, true},
		"time passed":              {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Remaining = "9s" }, true},
		"time passed for a pair":   {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Endpoints[0].Remaining = "4s" }, true},
		"a breaker closed":         {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].State = v1alpha1.BackendClosed }, false},
		"a count moved":            {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Saturations = 1 }, false},
		"a breaker went":           {func(s *v1alpha1.ProxyReportStatus) { s.Breakers = nil }, false},
		"another revision":         {func(s *v1alpha1.ProxyReportStatus) { s.Tables[0].Revision = "s" }, false},
		"draining began":           {func(s *v1alpha1.ProxyReportStatus) { s.Draining = true }, false},
		"the proxy became unready": {func(s *v1alpha1.ProxyReportStatus) { s.Ready = false }, false},
		"an endpoint passed over": {func(s *v1alpha1.ProxyReportStatus) {
			s.Breakers[0].Endpoints = []v1alpha1.EndpointReport{{Endpoint: "e"}}
		}, false},
		"what the last good one is": {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].LastGood = 9 }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := base(), base()
			tc.change(&b)
			if got := sameReport(&a, &b); got != tc.want {
				t.Errorf("sameReport = %v, want %v", got, tc.want)
			}
		})
	}
}
