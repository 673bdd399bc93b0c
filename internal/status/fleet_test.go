package status

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

func TestFoldingTakesTheHighestEpoch(t *testing.T) {
	saturated := Evidence{
		State: v1alpha1.BackendOpen, Reason: v1alpha1.BackendSaturated, Since: now.Add(-time.Minute), RetryAt: now.Add(15 * time.Minute),
		Message: "no first token within 20s", Proxies: 1,
	}
	with := func(change func(*Evidence)) Evidence {
		e := saturated
		change(&e)
		return e
	}
	counted := func(b v1alpha1.BreakerReport, saturations int32, lastGood int64) v1alpha1.BreakerReport {
		b.Saturations, b.LastGood = saturations, lastGood
		return b
	}
	half := open("b", v1alpha1.BackendSaturated, 1)
	half.State, half.Remaining = v1alpha1.BackendHalfOpen, ""
	endless, garbled := open("b", v1alpha1.BackendSaturated, 1), open("b", v1alpha1.BackendSaturated, 1)
	endless.Remaining, garbled.Remaining = "99999h", "soon"
	longer := open("b", v1alpha1.BackendSaturated, 1)
	longer.Remaining = "1h"
	alien := proxyReport("p1", open("b", v1alpha1.BackendSaturated, 9))
	alien.Status.Schema = v1alpha1.ReportSchema + 1

	cases := map[string]struct {
		reports []Report
		want    Evidence
	}{
		"nothing said is closed":              {nil, Evidence{State: v1alpha1.BackendClosed}},
		"one proxy's word holds":              {[]Report{proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)), proxyReport("p2")}, saturated},
		"a newer closing beats an older open": {[]Report{proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)), proxyReport("p2", closed("b", 2))}, Evidence{State: v1alpha1.BackendClosed}},
		"in a tie Open beats Closed":          {[]Report{proxyReport("p1", closed("b", 1)), proxyReport("p2", open("b", v1alpha1.BackendSaturated, 1))}, saturated},
		"in a tie the later retryAt holds": {[]Report{
			proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)),
			proxyReport("p2", longer),
		}, with(func(e *Evidence) { e.Proxies, e.RetryAt = 2, now.Add(time.Hour) })},
		"in a tie of opens the first pod holds": {[]Report{proxyReport("p2", open("b", v1alpha1.BackendFailing, 1)), proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1))}, with(func(e *Evidence) { e.Proxies = 2 })},
		"a probe of one does not hide that the others hold it open": {
			[]Report{proxyReport("p1", half), proxyReport("p2", open("b", v1alpha1.BackendSaturated, 1))},
			with(func(e *Evidence) { e.Proxies = 2 }),
		},
		"a probe has no time of retry": {[]Report{proxyReport("p1", half)}, with(func(e *Evidence) { e.State, e.RetryAt = v1alpha1.BackendHalfOpen, time.Time{} })},
		"a draining proxy is heard and not counted": {
			[]Report{draining(proxyReport("p1", open("b", v1alpha1.BackendSaturated, 2))), proxyReport("p2", closed("b", 1))},
			with(func(e *Evidence) { e.Proxies = 0 }),
		},
		"counts since the same good answer add up, others are void": {
			[]Report{
				proxyReport("p1", counted(open("b", v1alpha1.BackendSaturated, 1), 1, 7)),
				proxyReport("p2", counted(closed("b", 0), 1, 7)), proxyReport("p3", counted(closed("b", 0), 5, 6)),
			},
			with(func(e *Evidence) { e.InARow = 2 }),
		},
		"a wait beyond reason is bounded":           {[]Report{proxyReport("p1", endless)}, with(func(e *Evidence) { e.RetryAt = now.Add(24 * time.Hour) })},
		"a wait that cannot be read is none":        {[]Report{proxyReport("p1", garbled)}, with(func(e *Evidence) { e.RetryAt = time.Time{} })},
		"a report of another schema is not read":    {[]Report{alien}, Evidence{State: v1alpha1.BackendClosed}},
		"a state that nobody knows is like closed":  {[]Report{proxyReport("p1", v1alpha1.BreakerReport{ID: "b", State: "Ajar", Epoch: 3})}, Evidence{State: v1alpha1.BackendClosed}},
		"endpoints that any proxy passes over show": {[]Report{proxyReport("p1", v1alpha1.BreakerReport{ID: "b", State: v1alpha1.BackendClosed, Endpoints: []v1alpha1.EndpointReport{{Endpoint: "embeddings"}}})}, Evidence{State: v1alpha1.BackendClosed, Endpoints: []string{"embeddings"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NewFleet(tc.reports).Evidence("b"), cmp.Transformer("empty", func(s []string) []string { return append([]string(nil), s...) })); diff != "" {
				t.Errorf("evidence (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFleetCountsProxies(t *testing.T) {
	shard := table.ShardOf(key.String())
	holding := map[table.Revision]bool{revision: true}
	odd := proxyReport("odd")
	odd.Status.Tables = []v1alpha1.TableRevision{{Shard: 99, Revision: "x"}, {Shard: -1, Revision: "x"}}
	cases := map[string]struct {
		reports           []Report
		holding           map[table.Revision]bool
		wantLive, wantAll int
	}{
		"nobody":                                  {nil, holding, 0, 0},
		"one of two serves":                       {[]Report{proxyReport("p1"), behind("p2")}, holding, 2, 1},
		"a draining one does not count":           {[]Report{proxyReport("p1"), draining(behind("p2"))}, holding, 1, 1},
		"what is not published is served by none": {[]Report{proxyReport("p1")}, nil, 1, 0},
		"shards that do not exist are no harm":    {[]Report{odd}, holding, 1, 0},
		"one whose report has another schema is there, and nobody knows what it serves": {[]Report{foreign(proxyReport("p1"), func(s *v1alpha1.ProxyReportStatus) { s.Schema = v1alpha1.ReportSchema + 1 })}, holding, 1, 0},
		"one whose report cannot be read is there, too":                                 {[]Report{{Pod: "p1", Status: &v1alpha1.ProxyReportStatus{}, Unreadable: true}}, holding, 1, 0},
		"a report that says nothing is nobody's":                                        {[]Report{{Pod: "p1", Status: &v1alpha1.ProxyReportStatus{}}}, holding, 0, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(tc.reports)
			if live, all := f.Live(), f.Serving(shard, tc.holding); live != tc.wantLive || all != tc.wantAll {
				t.Errorf("live, serving = %d, %d, want %d, %d", live, all, tc.wantLive, tc.wantAll)
			}
		})
	}
}

func TestChangeNamesWhatDiffers(t *testing.T) {
	base := []Report{proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)), proxyReport("p2")}
	shard := table.ShardOf(key.String())
	later := proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1))
	later.Status.RenewTime = metav1.NewMicroTime(now.Add(15 * time.Second))
	later.Status.Breakers[0].Remaining = "14m44s999ms"
	without := func(pod string) Report {
		r := proxyReport(pod)
		r.Status.Tables = nil
		return r
	}
	cases := map[string]struct {
		reports []Report
		want    Change
	}{
		"a renewal alone changes nothing":      {[]Report{later, proxyReport("p2")}, Change{}},
		"a proxy that goes concerns all":       {base[:1], Change{All: true}},
		"one in place of another concerns all": {[]Report{base[0], proxyReport("p3")}, Change{All: true}},
		"one of another release concerns all": {[]Report{base[0], foreign(proxyReport("p2"), func(s *v1alpha1.ProxyReportStatus) { s.TableSchema = table.Schema + 1 })},
			Change{All: true}},
		"another revision is a move":              {[]Report{base[0], behind("p2")}, Change{Moves: []Move{{shard, revision, "r0"}}}},
		"a shard that is left is a move to none":  {[]Report{base[0], without("p2")}, Change{Moves: []Move{{shard, revision, ""}}}},
		"an opening concerns its backend":         {[]Report{base[0], proxyReport("p2", open("c", v1alpha1.BackendFailing, 1))}, Change{Backends: []table.BackendID{"c"}}},
		"evidence that goes concerns its backend": {[]Report{proxyReport("p1"), proxyReport("p2")}, Change{Backends: []table.BackendID{"b"}}},
		"an adoption concerns its backend":        {[]Report{base[0], proxyReport("p2", open("b", v1alpha1.BackendSaturated, 1))}, Change{Backends: []table.BackendID{"b"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, NewFleet(tc.reports).ChangeFrom(NewFleet(base))); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
	slow := []Report{behind("p1"), behind("p2")}
	slow[0].Status.Breakers = base[0].Status.Breakers
	if diff := cmp.Diff(Change{Moves: []Move{{shard, "r0", revision}}}, NewFleet(base).ChangeFrom(NewFleet(slow))); diff != "" {
		t.Errorf("what two proxies did is one move (-want +got):\n%s", diff)
	}
	if first := NewFleet(base).ChangeFrom(nil); !first.All {
		t.Error("a first fleet must concern all routes")
	}
}

func TestManySmallExtensionsAreTold(t *testing.T) {
	at := func(left string) []Report {
		r := proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1))
		r.Status.Breakers[0].Remaining = v1alpha1.Duration(left)
		return []Report{r}
	}
	last, told := NewFleet(at("10m")), time.Duration(0)
	for _, left := range []string{"10m1s", "10m2s", "10m3s", "10m4s", "10m5s"} {
		next := NewFleet(at(left)).HeldTo(last)
		if len(next.ChangeFrom(last).Backends) > 0 {
			told++
		}
		last = next
		if lag := NewFleet(at(left)).Evidence("b").RetryAt.Sub(last.Evidence("b").RetryAt); lag > ReportTolerance {
			t.Errorf("what is known lags by %s behind %s", lag, left)
		}
	}
	if told == 0 {
		t.Error("five seconds in steps of one were never told")
	}
}

func TestRenewalSaysNothingNew(t *testing.T) {
	was := proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)).Status
	cases := map[string]struct {
		change func(s *v1alpha1.ProxyReportStatus)
		want   bool
	}{
		"time passes": {func(s *v1alpha1.ProxyReportStatus) {
			s.RenewTime = metav1.NewMicroTime(s.RenewTime.Add(15 * time.Second))
			s.Breakers[0].Remaining = "14m45s"
		}, true},
		"a cooldown is extended":     {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Remaining = "15m1s" }, false},
		"a breaker closes":           {func(s *v1alpha1.ProxyReportStatus) { s.Breakers = nil }, false},
		"an epoch is new":            {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Epoch++ }, false},
		"a count is new":             {func(s *v1alpha1.ProxyReportStatus) { s.Breakers[0].Saturations++ }, false},
		"another revision is served": {func(s *v1alpha1.ProxyReportStatus) { s.Tables = s.Tables[1:] }, false},
		"it drains":                  {func(s *v1alpha1.ProxyReportStatus) { s.Draining = true }, false},
		"an endpoint is passed over": {func(s *v1alpha1.ProxyReportStatus) {
			s.Breakers[0].Endpoints = []v1alpha1.EndpointReport{{Endpoint: "embeddings"}}
		}, false},
		"its schema is one of tomorrow": {func(s *v1alpha1.ProxyReportStatus) { s.Schema++ }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			is := was.DeepCopy()
			tc.change(is)
			if got := Renewal(is, was); got != tc.want {
				t.Errorf("Renewal = %v, want %v", got, tc.want)
			}
		})
	}
}

// Whatever a breaker says anew is news: a field that is forgotten would leave the status of yesterday.
func TestEveryFieldOfABreakerIsNews(t *testing.T) {
	was := proxyReport("p1", open("b", v1alpha1.BackendSaturated, 1)).Status
	fields := reflect.TypeFor[v1alpha1.BreakerReport]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "Remaining" || name == "Endpoint" || name == "Refusals" || name == "Extensions" { // the first goes with time, the others are for proxies
			continue
		}
		is := was.DeepCopy()
		setOther(t, reflect.ValueOf(&is.Breakers[0]).Elem().Field(i))
		if Renewal(is, was) {
			t.Errorf("another %s is taken for a renewal", name)
		}
	}
	of := func(endpoint string) *v1alpha1.ProxyReportStatus {
		is := was.DeepCopy()
		is.Breakers[0].Endpoints = []v1alpha1.EndpointReport{{Endpoint: endpoint, Remaining: "1s"}}
		return is
	}
	if !Renewal(of("embeddings"), of("embeddings")) || Renewal(of("embeddings"), of("messages")) {
		t.Error("the endpoints that are passed over are not compared by name")
	}
	other := was.DeepCopy()
	other.TableSchema = table.Schema + 1
	if Renewal(other, was) {
		t.Error("another version of the table is taken for a renewal")
	}
}

func TestEveryFieldOfEvidenceConcernsItsBackend(t *testing.T) {
	was := Evidence{State: v1alpha1.BackendHalfOpen, Reason: "r", Since: now, RetryAt: now, Message: "m", Proxies: 1, Endpoints: []string{"e"}}
	fields := reflect.TypeFor[Evidence]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if name == "InARow" { // Events alone tell it
			continue
		}
		is := was
		setOther(t, reflect.ValueOf(&is).Elem().Field(i))
		change := (&Fleet{evidence: map[table.BackendID]Evidence{"b": is}}).ChangeFrom(&Fleet{evidence: map[table.BackendID]Evidence{"b": was}})
		if diff := cmp.Diff(Change{Backends: []table.BackendID{"b"}}, change); diff != "" {
			t.Errorf("another %s: change (-want +got):\n%s", name, diff)
		}
	}
}

// setOther puts something else into a field.
func setOther(t *testing.T, v reflect.Value) {
	t.Helper()
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = at.Add(time.Minute)
		return
	case **metav1.MicroTime:
		other := metav1.NewMicroTime((*at).Add(time.Minute))
		*at = &other
		return
	case *[]v1alpha1.EndpointReport:
		*at = append(*at, v1alpha1.EndpointReport{Endpoint: "other"})
		return
	case *[]string:
		*at = append(*at, "other")
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "-other")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	default:
		t.Fatalf("how to change a %s?", v.Type())
	}
}
