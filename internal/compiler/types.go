package compiler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Snapshot is everything that a compile reads. Nothing in it is changed, neither by the compile nor, once it was handed in, by
// anybody else. Any object in it may be incomplete or invalid.
type Snapshot struct {
	// Routes and Pins in any order; nil entries are skipped, and of two with one key the first counts. With
	// Options.Standalone their order is their age, the oldest first, because files have no creation time.
	Routes []*v1alpha1.LLMRoute
	Pins   []*v1alpha1.BackendPin
	// Undecodable objects exist at the API server and cannot be read as their type. They get a verdict, nothing more.
	Undecodable []Undecodable

	// Secrets, ConfigMaps and Services that routes name (see References). One that is absent or nil does not exist.
	Secrets    map[types.NamespacedName]*corev1.Secret
	ConfigMaps map[types.NamespacedName]*corev1.ConfigMap
	Services   map[types.NamespacedName]*corev1.Service
	// Forbidden are the Secrets and ConfigMaps that exist and may not be read. They are absent above.
	Forbidden map[Reference]bool

	// Salt keys the hash behind every table.BackendID, so that an id tells nothing of the credential. It must stay the
	// same as long as ids are to mean the same backends.
	Salt []byte

	Options Options
}

// Options are the compiler's settings. The zero value is what a cluster uses.
type Options struct {
	// ClusterDomain ends the DNS names of Services; empty means DefaultClusterDomain.
	ClusterDomain string
	// MaxPin is the longest that a pin may last, counted from its start; 0 means DefaultMaxPin.
	MaxPin time.Duration
	// Standalone says that the objects come from files: age is the order in the Snapshot, creation timestamps and
	// generations are ignored, and a pin needs startsAt or expiresAt.
	Standalone bool
}

// Defaults of Options.
const (
	DefaultClusterDomain = "cluster.local"
	DefaultMaxPin        = 7 * 24 * time.Hour
)

// Kind is the kind of an object that a Snapshot holds or a route refers to.
type Kind string

// The kinds of a Snapshot.
const (
	KindRoute     Kind = "LLMRoute"
	KindPin       Kind = "BackendPin"
	KindSecret    Kind = "Secret"
	KindConfigMap Kind = "ConfigMap"
	KindService   Kind = "Service"
)

// Undecodable names an object whose stored form does not fit its Go type, for example one stored before a field got its
// type.
type Undecodable struct {
	Kind       Kind // KindRoute or KindPin
	Key        types.NamespacedName
	UID        types.UID
	Generation int64
	// Detail says what does not fit, as a clause without values ("spec.retry.attempts is not a number").
	Detail string
}

// Reference is an object that a route names. It is always in the route's own namespace.
type Reference struct {
	Kind      Kind // KindSecret, KindConfigMap or KindService
	Namespace string
	Name      string
}

// Result is what a compile yields: the table and the verdict on each object of the Snapshot.
type Result struct {
	// Routes and Pins hold one verdict for each LLMRoute and BackendPin, the undecodable ones included.
	Routes map[types.NamespacedName]*RouteVerdict
	Pins   map[types.NamespacedName]*PinVerdict
	// Next is when the same Snapshot should be compiled again, as other pins of a route that has too many are to count then. Zero:
	// never.
	Next time.Time

	table    func() *table.Table
	compiled *compilation    // what the next compile takes over; shared by Results
	full     map[string]bool // the namespaces of routes whose verdict is another than compiled, see tableFull
}

// Problem is one thing that is wrong with an object, ready for the condition that shows it.
type Problem struct {
	// Condition that the problem makes false: for a route Accepted or ResolvedRefs, for a pin Accepted.
	Condition v1alpha1.ConditionType
	Reason    v1alpha1.ConditionReason
	// Field is the path of the cause, such as "spec.chain[1].auth.secretRef"; empty where it is the whole object.
	Field string
	// Message is a sentence that says what is wrong and what to do. It holds names of objects and backends, never a
	// host, a credential or another value that could be secret.
	Message string
}

// RouteVerdict is what the compiler makes of one LLMRoute.
type RouteVerdict struct {
	Key types.NamespacedName
	// UID and Generation of the object that the verdict is on: one that was made again under its name may have the same
	// generation.
	UID        types.UID
	Generation int64
	// Model is the logical name in force: spec.model or "namespace/name".
	Model string
	// Problems of the route itself, then of each backend in the order of the chain, then a model conflict.
	Problems []Problem
	// Backends of the chain in its order, the unusable ones included. Empty where the object could not be decoded or
	// the chain is empty or too long.
	Backends []BackendVerdict
	// Programmable says that the table holds an entry for this generation with at least one usable backend, so that
	// the route serves. It may be true with problems of Accepted: a mistake within one backend leaves out that backend.
	// Where it is false nothing is served: the entry has no backend, or is absent (Winner, or a model that no caller
	// can ask for).
	Programmable bool
	// Winner is the route that holds the model that this one also claims; zero where it has its model.
	Winner types.NamespacedName
}

// BackendVerdict is what the compiler makes of one backend of a chain.
type BackendVerdict struct {
	Name string
	// ID is empty where the backend is not usable.
	ID table.BackendID
	// Usable says that nothing keeps the backend out of the table: it is there if the route is Programmable.
	Usable bool
	// Problems are those of RouteVerdict.Problems that concern this backend.
	Problems []Problem
	// Failure and Saturation are the breaker settings in force: inherited from the route, defaulted, derived, and
	// lowered where another route sets less for the same backend.
	Failure    table.Failure
	Saturation table.Saturation
	// MaxInFlight in force; 0 is unlimited.
	MaxInFlight int
	// Lowered lists the settings that another route lowers, in the order failure.threshold, failure.cooldown,
	// saturation.threshold, saturation.cooldown, maxInFlight.
	Lowered []Lowered
}

// Lowered is a limit of a backend that is smaller than its own route says, because another route of the namespace names
// the same backend (one URL, physical model and credential) with a smaller one.
type Lowered struct {
	Field string // "saturation.cooldown"
	Value string // the value in force, as a person writes it
	Route types.NamespacedName
}

// PinVerdict is what the compiler makes of one BackendPin. Whether it is active is a question of time: see StartsAt and
// ExpiresAt. Which of several pins has its way on a route is for internal/plan.
type PinVerdict struct {
	Key        types.NamespacedName
	UID        types.UID
	Generation int64
	Problems   []Problem
	// StartsAt and ExpiresAt (exclusive) are absolute and in UTC. StartsAt is zero for a standalone pin without
	// startsAt: it has always been active. Both are zero where they cannot be told.
	StartsAt, ExpiresAt time.Time
	// MatchedRoutes are the names of the routes that the pin selects and that exist, sorted. MissingIn are those of them
	// whose chain lacks the backend: the pin does nothing there. UnknownRoutes are names in spec.routes.names that do
	// not exist. Verdicts may share these slices: they must not be changed.
	MatchedRoutes, MissingIn, UnknownRoutes []string
}
