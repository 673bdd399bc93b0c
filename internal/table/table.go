package table

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// BackendID is the identity of a backend: backends of one namespace with the same URL, physical model and credential
// are one backend, whichever routes name them. State (breakers, queues) is keyed by it and outlives table swaps. It is a
// salted hash that the compiler writes, 32 lower-case hex digits, and tells nothing of the credential.
type BackendID string

// Route is one logical model and everything a proxy needs to serve it.
type Route struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Generation of the LLMRoute that this entry was compiled from; 0 in standalone mode.
	Generation int64 `json:"generation"`
	// UID of that LLMRoute, which tells it from an earlier one of the same name; empty in standalone mode.
	UID string `json:"uid,omitempty"`
	// Created and Order settle which of two routes that claim one model keeps it, see Beats. Order is the position in
	// the manifests in standalone mode, where files have no creation time, and 0 elsewhere.
	Created time.Time `json:"created,omitzero"`
	Order   int       `json:"order,omitempty"`

	// Model is the logical name that callers put into "model".
	Model string `json:"model"`
	// Chain lists the usable backends, most preferred first. It may be empty: the route exists and cannot serve.
	Chain []Backend `json:"chain"`
	// Pins that are in force now or later, from the oldest to the newest; the newest has the last word. Of very many the
	// compiler keeps the newest of those in force and the next to come.
	Pins []Pin `json:"pins,omitempty"`

	Timeouts  Timeouts  `json:"timeouts"`
	Retry     Retry     `json:"retry"`
	Heartbeat Heartbeat `json:"heartbeat"`
	RateLimit RateLimit `json:"rateLimit"`
	Queue     Queue     `json:"queue"`

	PreferHeader  PreferHeader  `json:"preferHeader"`
	WhenAllOpen   WhenAllOpen   `json:"whenAllOpen"`
	ResponseModel ResponseModel `json:"responseModel"`
}

// Backend is one OpenAI-compatible server in a chain.
type Backend struct {
	ID BackendID `json:"id"`
	// Name is unique in the chain; it is what pins, the hint header, metrics and heartbeats use.
	Name string `json:"name"`
	// BaseURL is scheme, host and directory without a trailing slash, such as "http://tower.lan:11434/v1".
	BaseURL string `json:"baseURL"`
	// Query is the raw query that is added to every request, without the question mark; usually empty.
	Query string `json:"query,omitempty"`
	// Model is the physical model name sent to the backend.
	Model string `json:"model"`
	// Regime is a free grouping label: idle, contended, saturated, hosted, unknown.
	Regime string `json:"regime"`
	// Group is "namespace/capacityGroup"; backends in one group sit on the same hardware. Empty: a group of its own.
	Group string `json:"group,omitempty"`
	// MaxInFlight bounds concurrent requests over the whole fleet; 0 is unlimited.
	MaxInFlight int `json:"maxInFlight,omitempty"`
	// ContextWindow in tokens; 0 is unknown.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// Credential is nil where the backend takes none.
	Credential *Credential `json:"credential,omitempty"`
	Headers    []Header    `json:"headers,omitempty"`
	TLS        *TLS        `json:"tls,omitempty"`

	Failure    Failure    `json:"failure"`
	Saturation Saturation `json:"saturation"`
	Probe      ProbeMode  `json:"probe"`
}

// Credential is the one header that authenticates the proxy to a backend. It is secret: it never reaches a log, a
// metric, a span, a report or an error.
type Credential struct {
	Header string `json:"header"` // canonical name, for example "Authorization"
	Value  string `json:"value"`  // whole value, scheme included, for example "Bearer sk-..."
}

// Header is added to each request to a backend.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TLS says how a backend's certificate is verified and what the proxy shows of its own. All of it is PEM.
type TLS struct {
	CA         string `json:"ca,omitempty"` // empty: the system's roots
	ServerName string `json:"serverName,omitempty"`
	SkipVerify bool   `json:"skipVerify,omitempty"`
	ClientCert string `json:"clientCert,omitempty"`
	ClientKey  string `json:"clientKey,omitempty"`
}

// Failure is the breaker class for wrong or no answers.
type Failure struct {
	Threshold int           `json:"threshold"` // consecutive
	Cooldown  time.Duration `json:"cooldown"`
}

// Saturation is the breaker class for requests that were accepted and went quiet.
type Saturation struct {
	Threshold int           `json:"threshold"` // consecutive
	Cooldown  time.Duration `json:"cooldown"`
	// SlowAfter is how long a streaming attempt may go without its first token; 0 turns detection off.
	SlowAfter time.Duration `json:"slowAfter"`
	// NonStreamingSlowAfter bounds the whole of a non-streaming attempt; 0 turns it off.
	NonStreamingSlowAfter time.Duration `json:"nonStreamingSlowAfter"`
	// SlowAfterPerKilotoken is extra allowance per 1,000 prompt tokens (bytes/4).
	SlowAfterPerKilotoken time.Duration `json:"slowAfterPerKilotoken,omitempty"`
	// ColdStartGrace lets one detached request run on after slowAfter, so that a cold model can load; 0 is off.
	ColdStartGrace time.Duration `json:"coldStartGrace"`
}

// Pin is a BackendPin as it applies to one route. Times are absolute, so that a proxy starts and ends pins by its own
// clock, also while the manager is down.
type Pin struct {
	Name     string    `json:"name"`
	Backend  string    `json:"backend"` // a name in the route's chain
	Mode     PinMode   `json:"mode"`
	StartsAt time.Time `json:"startsAt"`
	// ExpiresAt is exclusive: at this instant the pin is over.
	ExpiresAt time.Time `json:"expiresAt"`
	Reason    string    `json:"reason,omitempty"`
}

// ActiveAt says whether the pin is in force at now (wall time).
func (p *Pin) ActiveAt(now time.Time) bool {
	return !now.Before(p.StartsAt) && now.Before(p.ExpiresAt)
}

// Timeouts of a route; 0 is none.
type Timeouts struct {
	Request time.Duration `json:"request"` // the whole budget over queue, attempts and fallbacks
	Connect time.Duration `json:"connect"` // dial and TLS handshake of one attempt
	Idle    time.Duration `json:"idle"`    // silence after the first token
}

// Retry allows further tries at the same backend before moving on; transport errors and 5xx only.
type Retry struct {
	Attempts int           `json:"attempts"`
	Backoff  time.Duration `json:"backoff"`
}

// Heartbeat configures the comments that tell a streaming caller what it waits for.
type Heartbeat struct {
	Interval    time.Duration `json:"interval"` // 0: no keepalives; state comments stay
	CommitAfter time.Duration `json:"commitAfter"`
	Form        HeartbeatForm `json:"form"`
}

// RateLimit is the fleet's token bucket for a route; Requests 0 turns it off.
type RateLimit struct {
	Requests int           `json:"requests"`
	Per      time.Duration `json:"per"`
	Burst    int           `json:"burst"`
}

// Queue bounds the callers that wait for a backend with MaxInFlight.
type Queue struct {
	Length  int           `json:"length"`
	MaxWait time.Duration `json:"maxWait"`
}

// The enums of the table carry the words of the API.
type (
	// PinMode is Prefer, Avoid or Only.
	PinMode string
	// ProbeMode is Synthetic or Request.
	ProbeMode string
	// HeartbeatForm is Line or Block.
	HeartbeatForm string
	// PreferHeader is Honor or Ignore.
	PreferHeader string
	// WhenAllOpen is Try or Reject.
	WhenAllOpen string
	// ResponseModel is Logical or Physical.
	ResponseModel string
)

// Values of the enums.
const (
	PinPrefer PinMode = "Prefer" // to the front
	PinAvoid  PinMode = "Avoid"  // to the back
	PinOnly   PinMode = "Only"   // nothing else

	ProbeSynthetic ProbeMode = "Synthetic" // the proxy asks one token itself
	ProbeRequest   ProbeMode = "Request"   // the next caller's turn is the probe

	HeartbeatLine  HeartbeatForm = "Line"
	HeartbeatBlock HeartbeatForm = "Block"

	PreferHonor  PreferHeader = "Honor"
	PreferIgnore PreferHeader = "Ignore"

	AllOpenTry    WhenAllOpen = "Try"
	AllOpenReject WhenAllOpen = "Reject"

	ModelLogical  ResponseModel = "Logical"
	ModelPhysical ResponseModel = "Physical"
)

// Key is "namespace/name", the identity of a route.
func (r *Route) Key() string { return r.Namespace + "/" + r.Name }

// Backend returns the backend of that name, or nil.
func (r *Route) Backend(name string) *Backend {
	for i := range r.Chain {
		if r.Chain[i].Name == name {
			return &r.Chain[i]
		}
	}
	return nil
}

// OwnsModel says whether the model begins with the route's own namespace: such a claim beats any from elsewhere.
func (r *Route) OwnsModel() bool { return strings.HasPrefix(r.Model, r.Namespace+"/") }

// Beats says whether r keeps the model that both routes claim: a model within its own namespace first, then the older
// one, then the earlier position, then the smaller key. The compiler and the proxies apply the same rule.
func (r *Route) Beats(other *Route) bool {
	if r.OwnsModel() != other.OwnsModel() {
		return r.OwnsModel()
	}
	return cmp.Or(
		r.Created.Compare(other.Created),
		cmp.Compare(r.Order, other.Order),
		strings.Compare(r.Namespace, other.Namespace),
		strings.Compare(r.Name, other.Name),
	) < 0
}

// Table is a finished, immutable set of routes with its indexes. The zero value is an empty table.
type Table struct {
	byModel map[string]*Route
	routes  []*Route // sorted by key

	sortModels sync.Once
	models     []string
}

// New indexes routes. Where two claim one model the better claim (Beats) serves it; the other stays reachable by key. Of two with
// one key the later counts. The routes must not be changed afterwards.
func New(routes []*Route) *Table {
	sorted := slices.Clone(routes)
	if !slices.IsSortedFunc(sorted, compareRoutes) {
		slices.SortStableFunc(sorted, compareRoutes)
	}
	t := &Table{byModel: make(map[string]*Route, len(routes)), routes: sorted[:0]}
	for i, r := range sorted {
		if i+1 < len(sorted) && compareRoutes(r, sorted[i+1]) == 0 {
			continue
		}
		t.routes = append(t.routes, r)
		if held, taken := t.byModel[r.Model]; !taken || r.Beats(held) {
			t.byModel[r.Model] = r
		}
	}
	return t
}

// compareRoutes orders routes by key, which it puts together only where it has to: a table may be swapped several times a second.
func compareRoutes(a, b *Route) int {
	if a.Namespace == b.Namespace {
		return strings.Compare(a.Name, b.Name)
	}
	shorter := min(len(a.Namespace), len(b.Namespace))
	if order := strings.Compare(a.Namespace[:shorter], b.Namespace[:shorter]); order != 0 {
		return order
	}
	return strings.Compare(a.Key(), b.Key())
}

// exchange returns the table with the routes of one shard exchanged, which is faster than to index all of them again. It is nil
// where that cannot be done: where a shard, which came from outside, is not sorted, or has a key twice or one of another shard,
// or where two routes claim one model.
func (t *Table) exchange(was, is []*Route) *Table {
	if len(t.byModel) != len(t.routes) || !strictlySorted(is) {
		return nil
	}
	gone, come := differing(was, is)
	routes, ok := exchange(t.routes, gone, come)
	if !ok {
		return nil
	}
	next := &Table{routes: routes, byModel: maps.Clone(t.byModel)}
	for _, r := range gone {
		delete(next.byModel, r.Model)
	}
	for _, r := range come {
		next.byModel[r.Model] = r
	}
	if len(next.byModel) != len(next.routes) {
		return nil
	}
	return next
}

// exchange takes some routes out of a list and puts others in. All are sorted by key.
func exchange(routes, gone, come []*Route) (exchanged []*Route, ok bool) {
	exchanged = make([]*Route, 0, len(routes)+len(come))
	copyUntil := func(r *Route) (found bool) {
		at, found := slices.BinarySearchFunc(routes, r, compareRoutes)
		exchanged, routes = append(exchanged, routes[:at]...), routes[at:]
		return found
	}
	for len(gone) > 0 || len(come) > 0 {
		if len(come) == 0 || len(gone) > 0 && compareRoutes(gone[0], come[0]) <= 0 {
			if !copyUntil(gone[0]) || routes[0] != gone[0] {
				return nil, false
			}
			routes, gone = routes[1:], gone[1:]
			continue
		}
		if copyUntil(come[0]) {
			return nil, false
		}
		exchanged, come = append(exchanged, come[0]), come[1:]
	}
	return append(exchanged, routes...), true
}

func strictlySorted(routes []*Route) bool {
	for i := range routes {
		if i > 0 && compareRoutes(routes[i-1], routes[i]) >= 0 {
			return false
		}
	}
	return true
}

// differing returns the routes of two sorted lists that are not the same value in both.
func differing(was, is []*Route) (gone, come []*Route) {
	for len(was) > 0 && len(is) > 0 {
		if was[0] == is[0] {
			was, is = was[1:], is[1:]
			continue
		}
		order := compareRoutes(was[0], is[0])
		if order <= 0 {
			gone, was = append(gone, was[0]), was[1:]
		}
		if order >= 0 {
			come, is = append(come, is[0]), is[1:]
		}
	}
	return append(gone, was...), append(come, is...)
}

// Changed returns the backends of the routes that are not the same value in both tables. What a table says of any other backend is
// as it was.
func (t *Table) Changed(before *Table) map[BackendID]bool {
	changed := map[BackendID]bool{}
	gone, come := differing(before.routes, t.routes)
	for _, r := range append(gone, come...) {
		for i := range r.Chain {
			changed[r.Chain[i].ID] = true
		}
	}
	return changed
}

// ByModel returns the route that serves a logical model, or nil. The match is exact.
func (t *Table) ByModel(model string) *Route { return t.byModel[model] }

// ByKey returns the route "namespace/name", or nil.
func (t *Table) ByKey(key string) *Route {
	namespace, name, _ := strings.Cut(key, "/")
	sought := &Route{Namespace: namespace, Name: name}
	at, found := slices.BinarySearchFunc(t.routes, sought, compareRoutes)
	if !found {
		return nil
	}
	return t.routes[at]
}

// Models returns the logical names, sorted. The slice must not be changed.
func (t *Table) Models() []string {
	t.sortModels.Do(func() { t.models = slices.Sorted(maps.Keys(t.byModel)) })
	return t.models
}

// Routes returns all routes, sorted by key. The slice must not be changed.
func (t *Table) Routes() []*Route { return t.routes }
