package status

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/breaker"
	"github.com/spillway-dev/spillway/internal/table"
)

// ReportTolerance is how far two reports of one instant may lie apart: instants travel as remaining time, in whole milliseconds
// and by different clocks. Smaller differences never change a status.
const ReportTolerance = 2 * time.Second

// Report is one live ProxyReport. Whether a report is live is for the caller to know: it takes a clock.
type Report struct {
	Pod    string // name of the report, which is the pod's
	Status *v1alpha1.ProxyReportStatus
	// Seen is when the report came, on the reader's clock, to which its instants are brought where the proxy's clock is another
	// (see Offset). Zero: the proxy's clock is believed.
	Seen time.Time
	// Unreadable says that what the API server holds does not fit the type of Status: another release has written it.
	Unreadable bool
}

// Fleet is what all live reports say together. It is immutable; a nil Fleet has no proxy.
type Fleet struct {
	proxies  []*proxy // those that count: live and not draining, sorted by pod
	evidence map[table.BackendID]Evidence
}

type proxy struct {
	pod       string
	revisions [table.Shards]table.Revision
	// foreign says that it is of a release with other schemas: it may not know our table, or we do not know its report.
	foreign bool
}

// Evidence is what the fleet knows of one backend: the report with the highest epoch, ties settled by Open before Closed, then
// by who needs no correction of its clock, then by pod name. Of several equal reports the latest RetryAt holds. Instants are by the
// reader's clock.
type Evidence struct {
	State   v1alpha1.BackendState // Closed, Open or HalfOpen
	Reason  v1alpha1.BackendReason
	Since   time.Time // zero where unknown
	RetryAt time.Time // zero where it has passed, and for other states than Open
	Message string
	// Proxies counts those that see the backend as unusable, too; 0 for Closed, where an absence would say nothing.
	Proxies int
	// InARow is the consecutive bad turns of the fleet that the reason speaks of; 0 where unknown.
	InARow int
	// Endpoints that are passed over by at least one proxy, sorted.
	Endpoints []string
}

// Down says whether callers are kept away from the backend.
func (e Evidence) Down() bool { return isDown(e.State) }

func isDown(s v1alpha1.BackendState) bool {
	return s == v1alpha1.BackendOpen || s == v1alpha1.BackendHalfOpen
}

// NewFleet folds live reports. A draining proxy is not counted, but what it knows of backends is. One that writes reports of
// another schema is there, so it counts, but nothing of what it says is read: nobody may claim that it serves. A report
// without any schema is nobody's.
func NewFleet(reports []Report) *Fleet {
	reports = slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Status.Schema == 0 && !r.Unreadable })
	slices.SortFunc(reports, func(a, b Report) int { return strings.Compare(a.Pod, b.Pod) })
	f := &Fleet{evidence: map[table.BackendID]Evidence{}}
	votes := map[table.BackendID][]vote{}
	for _, r := range reports {
		if r.Unreadable || r.Status.Schema != v1alpha1.ReportSchema {
			f.proxies = append(f.proxies, &proxy{pod: r.Pod, foreign: true})
			continue
		}
		if !r.Status.Draining {
			foreign := cmp.Or(r.Status.TableSchema, 1) != table.Schema
			f.proxies = append(f.proxies, &proxy{pod: r.Pod, revisions: revisionsOf(r.Status.Tables), foreign: foreign})
		}
		from := vote{written: r.Status.RenewTime.Time, offset: r.Status.ClockOffset(r.Seen), counts: !r.Status.Draining}
		if from.offset != 0 {
			from.written = r.Seen
		}
		for i := range r.Status.Breakers {
			from.BreakerReport = &r.Status.Breakers[i]
			id := table.BackendID(from.ID)
			votes[id] = append(votes[id], from)
		}
	}
	for id, of := range votes {
		f.evidence[id] = fold(of)
	}
	return f
}

func revisionsOf(tables []v1alpha1.TableRevision) (revisions [table.Shards]table.Revision) {
	for _, t := range tables {
		if t.Shard >= 0 && int(t.Shard) < table.Shards {
			revisions[t.Shard] = table.Revision(t.Revision)
		}
	}
	return revisions
}

// vote is what one proxy says of one backend.
type vote struct {
	*v1alpha1.BreakerReport
	written time.Time     // when the report was written, by the reader's clock
	offset  time.Duration // from the proxy's wall clock to the reader's
	counts  bool          // it is not draining
}

// fold settles what several proxies say of one backend. The votes are sorted by pod, so of equals the first wins.
func fold(votes []vote) Evidence {
	first := slices.MinFunc(votes, func(a, b vote) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(severity(b.State), severity(a.State)), cmp.Compare(a.offset.Abs(), b.offset.Abs()))
	})
	e := Evidence{State: first.State, Reason: first.Reason, Since: first.SinceBy(first.offset), Message: first.Message, Endpoints: endpointsOf(votes)}
	if severity(e.State) == 0 {
		e.State = v1alpha1.BackendClosed
	}
	if !e.Down() {
		return e
	}
	for _, v := range votes {
		if v.counts && isDown(v.State) {
			e.Proxies++
		}
		equal := v.Epoch == first.Epoch && v.State == first.State && v.offset.Abs() == first.offset.Abs()
		if at := retryAt(v); equal && at.After(e.RetryAt) {
			e.RetryAt = at // who heard of it from others does not write again for that
		}
	}
	e.InARow = inARow(votes, e.Reason)
	return e
}

// severity orders the states of a breaker; anything else ranks with Closed.
func severity(s v1alpha1.BackendState) int {
	switch s {
	case v1alpha1.BackendOpen:
		return 2
	case v1alpha1.BackendHalfOpen:
		return 1
	default:
		return 0
	}
}

// retryAt is absolute only here, at the edge.
func retryAt(v vote) time.Time {
	remaining, err := v.Remaining.Parse()
	if err != nil || remaining <= 0 || v.State != v1alpha1.BackendOpen || v.written.IsZero() {
		return time.Time{}
	}
	return v.written.Add(min(remaining, breaker.MaxRetryAfter))
}

// inARow sums the counts of the proxies that know of the same last good answer; those of older ones are void.
func inARow(votes []vote, reason v1alpha1.BackendReason) int {
	var last int64
	for _, v := range votes {
		last = max(last, v.LastGood)
	}
	n := 0
	for _, v := range votes {
		switch {
		case v.LastGood != last:
		case reason == v1alpha1.BackendSaturated:
			n += int(v.Saturations)
		case reason == v1alpha1.BackendFailing:
			n += int(v.Failures)
		}
	}
	return n
}

func endpointsOf(votes []vote) []string {
	names := map[string]bool{}
	for _, v := range votes {
		for _, e := range v.Endpoints {
			names[e.Endpoint] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Live is the number of proxies that count.
func (f *Fleet) Live() int {
	if f == nil {
		return 0
	}
	return len(f.proxies)
}

// Foreign is the number of proxies that count and are of a release with another schema of the table or of reports.
func (f *Fleet) Foreign() (n int) {
	if f == nil {
		return 0
	}
	for _, p := range f.proxies {
		if p.foreign {
			n++
		}
	}
	return n
}

// Serving is the number of proxies that count and serve one of the revisions of a shard.
func (f *Fleet) Serving(shard int, revisions map[table.Revision]bool) int {
	if f == nil {
		return 0
	}
	n := 0
	for _, p := range f.proxies {
		if revisions[p.revisions[shard]] {
			n++
		}
	}
	return n
}

// Evidence returns what is known of a backend; Closed where nothing is.
func (f *Fleet) Evidence(id table.BackendID) Evidence {
	if f != nil {
		if e, ok := f.evidence[id]; ok {
			return e
		}
	}
	return Evidence{State: v1alpha1.BackendClosed}
}

// HeldTo returns the fleet with the instants of an earlier one where the two lie no further apart than ReportTolerance. What is told of a
// change is then measured from what was told last, so that many small steps in one direction come to be told, too.
func (f *Fleet) HeldTo(earlier *Fleet) *Fleet {
	if earlier == nil {
		return f
	}
	held := &Fleet{proxies: f.proxies, evidence: make(map[table.BackendID]Evidence, len(f.evidence))}
	for id, e := range f.evidence {
		if was := earlier.Evidence(id); was.State == e.State {
			e.Since, e.RetryAt = heldInstant(e.Since, was.Since), heldInstant(e.RetryAt, was.RetryAt)
		}
		held.evidence[id] = e
	}
	return held
}

func heldInstant(at, was time.Time) time.Time {
	if near(at, was) {
		return was
	}
	return at
}

// Renewal says whether a report says nothing that an earlier one of the same proxy did not, but that it is alive.
func Renewal(is, was *v1alpha1.ProxyReportStatus) bool {
	return is.Schema == was.Schema && is.TableSchema == was.TableSchema && is.Draining == was.Draining && slices.Equal(is.Tables, was.Tables) &&
		slices.EqualFunc(is.Breakers, was.Breakers, func(a, b v1alpha1.BreakerReport) bool {
			return sameBreaker(&a, &b) && sameInstant(retryAt(vote{BreakerReport: &a, written: is.RenewTime.Time}),
				retryAt(vote{BreakerReport: &b, written: was.RenewTime.Time}))
		})
}

// sameBreaker leaves out what passing time alone changes.
func sameBreaker(a, b *v1alpha1.BreakerReport) bool {
	return a.ID == b.ID && a.State == b.State && a.Reason == b.Reason && a.Epoch == b.Epoch && a.Message == b.Message &&
		a.Saturations == b.Saturations && a.Failures == b.Failures && a.LastGood == b.LastGood && a.Probe == b.Probe && a.Since.Equal(b.Since) &&
		slices.EqualFunc(a.Endpoints, b.Endpoints, func(a, b v1alpha1.EndpointReport) bool { return a.Endpoint == b.Endpoint })
}

// sameInstant allows for the rounding of remaining times and for the drift between a proxy's two clocks.
func sameInstant(a, b time.Time) bool {
	const rounding = 50 * time.Millisecond
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= rounding
}

// Change names what differs between two fleets, so that only the routes concerned are looked at.
type Change struct {
	All      bool              // proxies came, went or changed their release: every route is concerned
	Moves    []Move            // what proxies did, each once, sorted; Ledger.Concerned knows the routes
	Backends []table.BackendID // sorted
}

// Move is what one proxy or several did: they serve another revision of a shard than before. An empty revision is none.
type Move struct {
	Shard    int
	From, To table.Revision
}

// ChangeFrom returns what differs from an earlier fleet.
func (f *Fleet) ChangeFrom(earlier *Fleet) Change {
	if earlier == nil {
		return Change{All: true}
	}
	if !slices.EqualFunc(f.proxies, earlier.proxies, func(a, b *proxy) bool { return a.pod == b.pod && a.foreign == b.foreign }) {
		return Change{All: true}
	}
	var c Change
	c.Moves = f.movesFrom(earlier)
	for id, e := range f.evidence {
		if !same(e, earlier.Evidence(id)) {
			c.Backends = append(c.Backends, id)
		}
	}
	for id, e := range earlier.evidence {
		if _, still := f.evidence[id]; !still && !same(e, Evidence{State: v1alpha1.BackendClosed}) {
			c.Backends = append(c.Backends, id)
		}
	}
	slices.Sort(c.Backends)
	return c
}

// movesFrom returns what the proxies did since an earlier fleet of the same proxies.
func (f *Fleet) movesFrom(earlier *Fleet) []Move {
	moves := map[Move]bool{}
	for i, p := range f.proxies {
		was := earlier.proxies[i]
		for shard, revision := range p.revisions {
			if revision != was.revisions[shard] {
				moves[Move{shard, was.revisions[shard], revision}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(moves), func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
}

// same says whether two pieces of evidence make the same status.
func same(a, b Evidence) bool {
	return a.State == b.State && a.Reason == b.Reason && a.Message == b.Message && a.Proxies == b.Proxies &&
		near(a.Since, b.Since) && near(a.RetryAt, b.RetryAt) && slices.Equal(a.Endpoints, b.Endpoints)
}

// near says whether two instants are the same but for ReportTolerance. An unknown one is like an unknown one only.
func near(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return a.IsZero() == b.IsZero()
	}
	return a.Sub(b).Abs() <= ReportTolerance
}
