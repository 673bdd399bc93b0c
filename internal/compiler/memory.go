package compiler

import (
	"bytes"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// recall finds what an earlier compile knows that holds for this one.
func (c *compilation) recall(earlier *Result) {
	if earlier == nil || earlier.compiled == nil {
		return
	}
	was := earlier.compiled
	if c.Options != was.Options || c.Options.Standalone || !bytes.Equal(c.Salt, was.Salt) {
		return // each id, name of a Service, or place in the order may be another
	}
	c.earlier, c.changed, c.changedIn = was, map[Reference]bool{}, map[string]bool{}
	noteChanged(c, KindSecret, was.Secrets, c.Secrets)
	noteChanged(c, KindConfigMap, was.ConfigMaps, c.ConfigMaps)
	noteChanged(c, KindService, was.Services, c.Services)
}

func noteChanged[T any](c *compilation, kind Kind, was, is map[types.NamespacedName]*T) {
	note := func(key types.NamespacedName) {
		c.changed[Reference{Kind: kind, Namespace: key.Namespace, Name: key.Name}] = true
		c.changedIn[key.Namespace] = true
	}
	for key, object := range is {
		if was[key] != object {
			note(key)
		}
	}
	for key, object := range was {
		if is[key] != object {
			note(key)
		}
	}
}

// refersToChanged says whether a route names an object that is not the same as at the earlier compile.
func (c *compilation) refersToChanged(route *v1alpha1.LLMRoute) bool {
	if !c.changedIn[route.Namespace] {
		return false
	}
	for _, ref := range References(route) {
		if c.changed[ref] {
			return true
		}
	}
	return false
}

// patched returns the verdicts of all namespaces, made from those of the earlier compile by what differs.
func patched[K comparable, V any](earlier map[K]V, c *compilation, verdicts func(n *namespace, set func(K, V))) map[K]V {
	all := maps.Clone(earlier)
	if all == nil {
		all = map[K]V{}
	}
	for name, known := range c.earlier.namespaces {
		if c.namespaces[name] != known {
			verdicts(known, func(key K, _ V) { delete(all, key) })
		}
	}
	for name, n := range c.namespaces {
		if c.earlier.namespaces[name] != n {
			verdicts(n, func(key K, v V) { all[key] = v })
		}
	}
	return all
}
