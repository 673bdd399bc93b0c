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
	of := func(kind Kind) func(types.NamespacedName) Reference {
		return func(key types.NamespacedName) Reference {
			return Reference{Kind: kind, Namespace: key.Namespace, Name: key.Name}
		}
	}
	noteChanged(c, was.Secrets, c.Secrets, of(KindSecret))
	noteChanged(c, was.ConfigMaps, c.ConfigMaps, of(KindConfigMap))
	noteChanged(c, was.Services, c.Services, of(KindService))
	noteChanged(c, was.Forbidden, c.Forbidden, func(ref Reference) Reference { return ref })
}

func noteChanged[K, V comparable](c *compilation, was, is map[K]V, reference func(K) Reference) {
	for _, pair := range [][2]map[K]V{{was, is}, {is, was}} {
		for key, value := range pair[0] {
			if pair[1][key] != value {
				ref := reference(key)
				c.changed[ref], c.changedIn[ref.Namespace] = true, true
			}
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
