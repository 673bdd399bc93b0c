package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of the ProxyReport's schema. A report that breaks one is refused whole, so the writer stays within them.
const (
	maxBreakers  = 2048
	maxEndpoints = 8
	maxMessage   = 256
)

// What etcd takes is bounded, too: at most 1.5 MiB an object, with the API server's own notes on who set which field. As many
// breakers as a report holds take 1 MiB of that, and spareBytes are for what else is said of them.
const (
	spareBytes    = 384 << 10
	endpointBytes = 160
)

// endpointBase is what the report leaves out of an endpoint's path.
const endpointBase = "/v1/"

// ToReports puts records into the words of the API, sorted by id. Where there are more than a report may hold, those that are
// not Closed come first; where the words on them are too many, the last ones say less.
func ToReports(records []breaker.Record) []v1alpha1.BreakerReport {
	if len(records) > maxBreakers {
		records = slices.Clone(records)
		slices.SortStableFunc(records, func(a, b breaker.Record) int { return cmp.Compare(urgency(a), urgency(b)) })
		records = records[:maxBreakers]
	}
	reports := make([]v1alpha1.BreakerReport, 0, len(records))
	spare := spareBytes
	for i := range records {
		reports = append(reports, toReport(&records[i]))
		spare = trim(&reports[i], spare)
	}
	slices.SortFunc(reports, func(a, b v1alpha1.BreakerReport) int { return strings.Compare(a.ID, b.ID) })
	return reports
}

func urgency(r breaker.Record) int {
	if r.State == breaker.Closed {
		return 1
	}
	return 0
}

func toReport(r *breaker.Record) v1alpha1.BreakerReport {
	out := v1alpha1.BreakerReport{
		ID:          string(r.ID),
		State:       v1alpha1.BackendState(r.State),
		Reason:      v1alpha1.BackendReason(r.Reason),
		Epoch:       int64(r.Epoch),
		Saturations: int32(r.Saturations),
		Failures:    int32(r.Failures),
		LastGood:    int64(r.LastGood),
		Refusals:    int32(r.Refusals),
		Extensions:  int32(r.Extensions),
		Message:     cut(r.Message, maxMessage),
		Endpoint:    strings.TrimPrefix(r.Endpoint, endpointBase),
	}
	if r.AwaitsCaller {
		out.Probe = v1alpha1.ProbeRequest
	}
	if r.Remaining > 0 {
		out.Remaining = v1alpha1.FormatDuration(r.Remaining)
	}
	if !r.Since.IsZero() {
		out.Since = &metav1.MicroTime{Time: r.Since.UTC().Truncate(time.Microsecond)}
	}
	for _, e := range r.Endpoints[:min(len(r.Endpoints), maxEndpoints)] {
		out.Endpoints = append(out.Endpoints, v1alpha1.EndpointReport{
			Endpoint:  strings.TrimPrefix(e.Endpoint, endpointBase),
			Remaining: v1alpha1.FormatDuration(e.Remaining),
		})
	}
	return out
}

// trim takes away the endpoints of a breaker, and then its message, where there is no room for them. It returns the room that is left.
func trim(r *v1alpha1.BreakerReport, spare int) int {
	if len(r.Message)+endpointBytes*len(r.Endpoints) > spare {
		r.Endpoints = nil
	}
	if len(r.Message) > spare {
		r.Message = ""
	}
	return spare - len(r.Message) - endpointBytes*len(r.Endpoints)
}

// cut shortens text to at most limit characters.
func cut(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	runes := []rune(text)
	return string(runes[:limit])
}

// toRecords reads the breakers of another proxy's report. What makes no sense is left out: a report is evidence, not an
// order. The endpoints that are passed over inform status alone and stay behind. What is told as an instant is brought to this
// proxy's wall clock by offset, since it goes into this proxy's own report.
func toRecords(reports []v1alpha1.BreakerReport, offset time.Duration) []breaker.Record {
	records := make([]breaker.Record, 0, len(reports))
	for i := range reports {
		if r, ok := toRecord(&reports[i]); ok {
			r.Since = reports[i].SinceBy(offset)
			records = append(records, r)
		}
	}
	return records
}

func toRecord(in *v1alpha1.BreakerReport) (breaker.Record, bool) {
	if !isValid(in) {
		return breaker.Record{}, false
	}
	out := breaker.Record{
		ID:          table.BackendID(in.ID),
		State:       breaker.State(in.State),
		Reason:      breaker.Reason(in.Reason),
		Epoch:       uint64(in.Epoch),
		Saturations: int(in.Saturations),
		Failures:    int(in.Failures),
		LastGood:    uint64(in.LastGood),
		Refusals:    int(in.Refusals),
		Extensions:  int(in.Extensions),
		Message:     in.Message,

		AwaitsCaller: in.Probe == v1alpha1.ProbeRequest,
	}
	if endpoint := endpointBase + in.Endpoint; isEndpoint(endpoint) {
		out.Endpoint = endpoint
	}
	if in.Remaining != "" {
		remaining, err := in.Remaining.Parse()
		if err != nil {
			return breaker.Record{}, false
		}
		out.Remaining = remaining
	}
	return out, true
}

// isValid says whether a report's state is known and its counters can be counters.
func isValid(in *v1alpha1.BreakerReport) bool {
	switch breaker.State(in.State) {
	case breaker.Closed, breaker.Open, breaker.HalfOpen:
		return min(in.Epoch, in.LastGood) >= 0 && min(in.Saturations, in.Failures, in.Refusals, in.Extensions) >= 0
	}
	return false
}

func isEndpoint(path string) bool {
	_, known := openai.EndpointOf(path)
	return known
}

// aged returns the records as they stand some time after they were read: less remains.
func aged(records []breaker.Record, by time.Duration) []breaker.Record {
	out := slices.Clone(records)
	for i := range out {
		out[i].Remaining = max(out[i].Remaining-by, 0)
	}
	return out
}

// toTables lists the shards that have been read.
func toTables(revisions [table.Shards]table.Revision) []v1alpha1.TableRevision {
	var out []v1alpha1.TableRevision
	for shard, revision := range revisions {
		if revision != "" {
			out = append(out, v1alpha1.TableRevision{Shard: int32(shard), Revision: string(revision)})
		}
	}
	return out
}

// sameReport says whether two reports differ in nothing but the passing of time.
func sameReport(a, b *v1alpha1.ProxyReportStatus) bool {
	if a.Ready != b.Ready || a.Draining != b.Draining || !slices.Equal(a.Tables, b.Tables) {
		return false
	}
	return slices.EqualFunc(a.Breakers, b.Breakers, sameEvidence)
}

func sameEvidence(a, b v1alpha1.BreakerReport) bool {
	a.Remaining, b.Remaining = "", ""
	a.Endpoints, b.Endpoints = withoutTime(a.Endpoints), withoutTime(b.Endpoints)
	return equality.Semantic.DeepEqual(a, b)
}

func withoutTime(endpoints []v1alpha1.EndpointReport) []v1alpha1.EndpointReport {
	out := slices.Clone(endpoints)
	for i := range out {
		out[i].Remaining = ""
	}
	return out
}
