package compiler

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// memory is what a compile leaves for the next one: the draft of each route as it was read, before routes met each other,
// and what it was read from.
type memory struct {
	from   Snapshot
	drafts map[*v1alpha1.LLMRoute]*routeDraft
}

func remember(s *Snapshot, drafts []*routeDraft) *memory {
	m := &memory{from: *s, drafts: make(map[*v1alpha1.LLMRoute]*routeDraft, len(drafts))}
	for i, d := range drafts {
		if d != nil {
			m.drafts[s.Routes[i]] = d
		}
	}
	m.from.Routes, m.from.Pins, m.from.Undecodable = nil, nil, nil
	return m
}

// recollection is the part of a memory that holds for another snapshot. A nil one knows nothing.
type recollection struct {
	drafts map[*v1alpha1.LLMRoute]*routeDraft
	// changed are the objects that a route may refer to and that are not the same as then.
	changed map[Reference]bool
}

// recall finds what an earlier compile knows that holds for a snapshot.
func recall(earlier *Result, s *Snapshot) *recollection {
	if earlier == nil || earlier.memory == nil {
		return nil
	}
	m := earlier.memory
	if s.Options != m.from.Options || s.Options.Standalone || !bytes.Equal(s.Salt, m.from.Salt) {
		return nil // each id, name of a Service, or place in the order may be another
	}
	r := &recollection{drafts: m.drafts, changed: map[Reference]bool{}}
	noteChanged(r.changed, KindSecret, m.from.Secrets, s.Secrets)
	noteChanged(r.changed, KindConfigMap, m.from.ConfigMaps, s.ConfigMaps)
	noteChanged(r.changed, KindService, m.from.Services, s.Services)
	return r
}

func noteChanged[T any](changed map[Reference]bool, kind Kind, was, is map[types.NamespacedName]*T) {
	for key, object := range is {
		if was[key] != object {
			changed[Reference{Kind: kind, Namespace: key.Namespace, Name: key.Name}] = true
		}
	}
	for key, object := range was {
		if is[key] != object {
			changed[Reference{Kind: kind, Namespace: key.Namespace, Name: key.Name}] = true
		}
	}
}

// draft returns the draft of a route where nothing that it was made of has changed, else nil.
func (r *recollection) draft(route *v1alpha1.LLMRoute) *routeDraft {
	if r == nil {
		return nil
	}
	d := r.drafts[route]
	if d == nil || len(r.changed) == 0 {
		return d
	}
	for _, ref := range References(route) {
		if r.changed[ref] {
			return nil
		}
	}
	return d
}
