package compiler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// Bounds of the schema that files and older objects may break.
const (
	maxModelLength = 253
	maxChain       = 8
)

// routeDraft is a route on its way into the table. As it was read it is kept for the next compile, so each compile works on a
// copy, and calls own before it changes what the copy shares.
type routeDraft struct {
	reader  *reader                // nil once it is read
	spec    *v1alpha1.LLMRouteSpec // with the constant defaults; nil once it is read
	labels  labels.Set
	verdict *RouteVerdict
	// entry of the table; nil where there is none: the model is not known or belongs to another route.
	entry *table.Route
	// failure and saturation are the route's own settings, which its backends inherit.
	failure    table.Failure
	saturation saturationSettings
	refused    bool // a mistake at the route itself: no backend is used
	noModel    bool // the model is not one that callers could ask for
	owned      bool // verdict and entry are this compile's alone
	pins       int  // that have a place in the entry
	shard      int  // of the entry
}

// own gives the draft a verdict and an entry that it may change.
func (d *routeDraft) own() {
	if d.owned {
		return
	}
	d.owned = true
	verdict := *d.verdict
	verdict.Problems, verdict.Backends = slices.Clone(verdict.Problems), slices.Clone(verdict.Backends)
	d.verdict = &verdict
	if d.entry != nil {
		entry := *d.entry
		entry.Chain = slices.Clone(entry.Chain)
		d.entry = &entry
	}
}

// routeRules are what a route must keep to, apart from its backends. Each writes its part of the entry.
var routeRules = []func(*routeDraft){
	readModel,
	readChainLength,
	readRouteFailure,
	readRouteSaturation,
	readTimeouts,
	readRetry,
	readHeartbeat,
	readRateLimit,
	readQueue,
	readChoices,
}

// readRoute makes the draft of a route. position is its place in the Snapshot.
func (r *reader) readRoute(object *v1alpha1.LLMRoute, position int) *routeDraft {
	object.Spec.DeepCopyInto(&r.scratch.Spec)
	r.scratch.Default()
	d := &routeDraft{
		reader: r,
		spec:   &r.scratch.Spec,
		labels: object.Labels,
		verdict: &RouteVerdict{
			Key:        types.NamespacedName{Namespace: object.Namespace, Name: object.Name},
			UID:        object.UID,
			Generation: object.Generation,
		},
		entry: &table.Route{
			Namespace:  object.Namespace,
			Name:       object.Name,
			Generation: object.Generation,
			UID:        string(object.UID),
			Created:    encodable(object.CreationTimestamp.UTC()),
		},
	}
	if r.Options.Standalone {
		d.verdict.Generation, d.entry.Generation, d.entry.UID = 0, 0, ""
		d.entry.Created, d.entry.Order = time.Time{}, position+1
	}
	for _, rule := range routeRules {
		rule(d)
	}
	d.readChain()
	d.shard = table.ShardOf(d.entry.Key())
	if d.noModel {
		d.entry = nil
	}
	d.verdict.Programmable = d.entry != nil && len(d.entry.Chain) > 0
	d.spec, d.reader = nil, nil
	return d
}

// encodable returns the time, or the zero time where no text could hold it: one such entry would keep its whole shard
// from being published.
func encodable(t time.Time) time.Time {
	if t.Year() < 1 || t.Year() > lastYear {
		return time.Time{}
	}
	return t
}

// undecodableRoute is the draft of a route that exists and cannot be read.
func undecodableRoute(u Undecodable) *routeDraft {
	d := &routeDraft{
		verdict: &RouteVerdict{Key: u.Key, UID: u.UID, Generation: u.Generation},
	}
	d.refuse(v1alpha1.ReasonInvalidSpec, "", undecodableMessage(u))
	return d
}

func undecodableMessage(u Undecodable) string {
	return fmt.Sprintf("The stored object does not fit its schema (%s); apply it again with the right types.", u.Detail)
}

// refuse records a mistake at the route itself.
func (d *routeDraft) refuse(reason v1alpha1.ConditionReason, field, message string) {
	d.refused = true
	d.verdict.Problems = append(d.verdict.Problems,
		Problem{Condition: v1alpha1.ConditionAccepted, Reason: reason, Field: field, Message: message})
}

// loseTo records that another route holds the model. The message names the winner, also from another namespace: the
// owner must be able to find it.
func (d *routeDraft) loseTo(winner *routeDraft) {
	d.own()
	why := "its name comes first" // and they are of one age
	switch w := winner.entry; {
	case w.OwnsModel() && !d.entry.OwnsModel():
		why = "the model begins with the name of its namespace"
	case w.Created.Before(d.entry.Created):
		why = "it is older"
	case w.Order < d.entry.Order:
		why = "it comes first in the manifests"
	}
	d.verdict.Winner, d.verdict.Programmable = winner.verdict.Key, false
	d.refuse(v1alpha1.ReasonModelConflict, "spec.model", fmt.Sprintf(
		"The model %q is held by the route %s, because %s; choose another model, or delete that route and this one takes over.",
		d.verdict.Model, winner.verdict.Key, why))
	d.entry = nil
}

func readModel(d *routeDraft) {
	d.verdict.Model = d.spec.Model
	if d.spec.Model == "" {
		d.verdict.Model = d.entry.Key()
	}
	d.entry.Model = d.verdict.Model
	if len([]rune(d.spec.Model)) > maxModelLength || strings.ContainsFunc(d.spec.Model, isControl) {
		d.noModel = true
		d.refuse(v1alpha1.ReasonInvalidSpec, "spec.model",
			fmt.Sprintf("The model must have at most %d characters and no control characters.", maxModelLength))
	}
}

func readChainLength(d *routeDraft) {
	switch n := len(d.spec.Chain); {
	case n == 0:
		d.refuse(v1alpha1.ReasonInvalidSpec, "spec.chain", "The chain is empty; name at least one backend.")
	case n > maxChain:
		d.refuse(v1alpha1.ReasonInvalidSpec, "spec.chain", fmt.Sprintf("The chain has %d backends; at most %d are allowed.", n, maxChain))
		d.spec.Chain = nil
	}
}

// readChain makes the verdict on each backend and puts the usable ones into the entry.
func (d *routeDraft) readChain() {
	d.verdict.Backends = make([]BackendVerdict, len(d.spec.Chain))
	chain := make([]table.Backend, len(d.spec.Chain))
	usable := 0
	b := &backendDraft{route: d}
	for i := range d.spec.Chain {
		b.index, b.spec, b.verdict, b.out = i, &d.spec.Chain[i], &d.verdict.Backends[i], &chain[usable]
		if b.read(); b.verdict.Usable && !d.refused {
			usable++
		} else {
			chain[usable] = table.Backend{}
		}
		d.verdict.Problems = append(d.verdict.Problems, b.verdict.Problems...)
	}
	d.entry.Chain = chain[:usable:usable]
}

// isControl says whether a character can break a line, a header or a terminal.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }
