package compiler

import (
	"iter"
	"maps"
	"slices"
)

// claim is who claims a model. It does not change: compiles share it.
type claim struct {
	holder *routeDraft   // the best one
	others []*routeDraft // in no order
}

// after returns who claims the model once some claims have ended and others have begun.
func (c claim) after(ended map[*routeDraft]bool, begun []*routeDraft) claim {
	if c.holder == nil && len(begun) == 1 {
		return claim{holder: begun[0]} // as nearly all are
	}
	all := make([]*routeDraft, 0, 1+len(c.others)+len(begun))
	for _, d := range c.others {
		if !ended[d] {
			all = append(all, d)
		}
	}
	if c.holder != nil && !ended[c.holder] {
		all = append(all, c.holder)
	}
	all = append(all, begun...)
	if len(all) == 0 {
		return claim{}
	}
	best := 0
	for i, d := range all {
		if d.entry.Beats(all[best].entry) {
			best = i
		}
	}
	holder := all[best]
	return claim{holder: holder, others: slices.Delete(all, best, best+1)}
}

// settleModels gives each model to the best claim. A route that is refused for another mistake keeps its claim: a typing error
// must not hand its callers to somebody else's backends. Where a model has another holder than at the earlier compile, the
// namespaces of all who claim it have changed.
func (c *compilation) settleModels() {
	c.claims = maps.Clone(c.earlier.claims)
	if c.claims == nil {
		c.claims = make(map[string]claim, len(c.Snapshot.Routes))
	}
	ended, begun := c.turnover()
	for model, drafts := range begun {
		c.claims[model] = c.claims[model].after(ended, drafts)
		c.moved(model)
	}
}

// turnover returns the claims that end with this compile, and by model those that begin; a model that only loses claims has none
// there. All of a model come at once: any number of routes may claim one.
func (c *compilation) turnover() (ended map[*routeDraft]bool, begun map[string][]*routeDraft) {
	ended, begun = map[*routeDraft]bool{}, map[string][]*routeDraft{}
	for name, known := range c.earlier.namespaces {
		if n := c.namespaces[name]; n != nil && !n.changed {
			continue
		}
		for d := range claimants(known.read) {
			ended[d], begun[d.entry.Model] = true, nil
		}
	}
	for _, n := range c.namespaces {
		if !n.changed {
			continue
		}
		for d := range claimants(n.read) {
			begun[d.entry.Model] = append(begun[d.entry.Model], d)
		}
	}
	return ended, begun
}

// claimants yields the drafts that claim a model.
func claimants(drafts []*routeDraft) iter.Seq[*routeDraft] {
	return func(yield func(*routeDraft) bool) {
		for _, d := range drafts {
			if d != nil && d.entry != nil && !yield(d) {
				return
			}
		}
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
