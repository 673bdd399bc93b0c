package compiler

import (
	"maps"
	"slices"
)

// claim is who claims a model. It does not change: compiles share it.
type claim struct {
	holder *routeDraft   // the best one
	others []*routeDraft // in no order
}

func (c claim) with(d *routeDraft) claim {
	switch {
	case c.holder == nil:
		return claim{holder: d}
	case d.entry.Beats(c.holder.entry):
		return claim{holder: d, others: append(slices.Clip(c.others), c.holder)}
	default:
		return claim{holder: c.holder, others: append(slices.Clip(c.others), d)}
	}
}

func (c claim) without(d *routeDraft) claim {
	var left claim
	for _, other := range append(slices.Clip(c.others), c.holder) {
		if other != d {
			left = left.with(other)
		}
	}
	return left
}

// settleModels gives each model to the best claim. A route that is refused for another mistake keeps its claim: a typing error
// must not hand its callers to somebody else's backends. Where a model has another holder than at the earlier compile, the
// namespaces of all who claim it have changed.
func (c *compilation) settleModels() {
	c.claims = maps.Clone(c.earlier.claims)
	if c.claims == nil {
		c.claims = make(map[string]claim, len(c.Snapshot.Routes))
	}
	touched := map[string]bool{}
	update := func(drafts []*routeDraft, updated func(claim, *routeDraft) claim) {
		for _, d := range drafts {
			if d == nil || d.entry == nil {
				continue
			}
			model := d.entry.Model
			touched[model] = true
			c.claims[model] = updated(c.claims[model], d)
		}
	}
	for name, known := range c.earlier.namespaces {
		if n := c.namespaces[name]; n == nil || n.changed {
			update(known.read, claim.without)
		}
	}
	for _, n := range c.namespaces {
		if n.changed {
			update(n.read, claim.with)
		}
	}
	for model := range touched {
		c.moved(model)
	}
}

// moved marks the namespaces of all who claim a model, if another one holds it now.
func (c *compilation) moved(model string) {
	is := c.claims[model]
	if is.holder == nil {
		delete(c.claims, model)
		return
	}
	if c.earlier.claims[model].holder == is.holder {
		return
	}
	c.namespaces[is.holder.verdict.Key.Namespace].changed = true
	for _, d := range is.others {
		c.namespaces[d.verdict.Key.Namespace].changed = true
	}
}
