package compiler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// namespace is the part of a compile that depends on nothing outside of it but the models that others hold: backends are shared
// and pins apply within a namespace. Once it is finished it does not change, and later compiles take it over whole while nothing
// in it changes.
type namespace struct {
	name string

	// What it is made of, in the order of the Snapshot.
	routes      []*v1alpha1.LLMRoute
	positions   []int // of the routes in the Snapshot, in standalone mode only
	pins        []*v1alpha1.BackendPin
	undecodable []Undecodable

	read    []*routeDraft // by routes
	changed bool          // since the earlier compile, or it was not there

	// What comes of it, each sorted by name.
	verdicts    []*RouteVerdict
	entries     []placedEntry
	pinVerdicts []*PinVerdict

	next         time.Time   // see Result.Next
	edges        []time.Time // when pins start and end, sorted
	since, until time.Time   // now may be anything from since until before until, where until is not zero, and the same comes of it
}

// placedEntry is an entry with the shard that it belongs to.
type placedEntry struct {
	route *table.Route
	shard int
}

// compareNamespaces orders them as the keys of their routes are ordered, where a '/' follows.
func compareNamespaces(a, b *namespace) int {
	shorter := min(len(a.name), len(b.name))
	if order := strings.Compare(a.name[:shorter], b.name[:shorter]); order != 0 {
		return order
	}
	return strings.Compare(a.name[shorter:]+"/", b.name[shorter:]+"/")
}

// divide puts the objects of the Snapshot into their namespaces, and finds out which of those are not as they were.
func (c *compilation) divide() {
	c.divideRoutes()
	for _, pin := range c.Snapshot.Pins {
		if pin != nil {
			n := c.in(pin.Namespace)
			n.pins = append(n.pins, pin)
		}
	}
	for _, u := range c.Snapshot.Undecodable {
		n := c.in(u.Key.Namespace)
		n.undecodable = append(n.undecodable, u)
	}
	for name, n := range c.namespaces {
		if len(n.routes) > 0 {
			c.starts[n.routes[0]] = n
		}
		n.changed = !n.sameAs(c.earlier.namespaces[name]) || c.changedIn[name]
	}
}

func (c *compilation) divideRoutes() {
	for at := 0; at < len(c.Snapshot.Routes); {
		route := c.Snapshot.Routes[at]
		if known := c.earlier.starts[route]; known != nil && c.in(known.name).take(known, c.Snapshot.Routes[at:]) {
			at += len(known.routes)
			continue
		}
		if route != nil {
			n := c.in(route.Namespace)
			n.routes = append(n.routes, route)
			if c.Options.Standalone {
				n.positions = append(n.positions, at)
			}
		}
		at++
	}
}

// in returns a namespace of this compile.
func (c *compilation) in(name string) *namespace {
	n := c.namespaces[name]
	if n == nil {
		n = &namespace{name: name}
		c.namespaces[name] = n
	}
	return n
}

// take fills a namespace with the routes that it had, if these begin with just those. It looks into none of them, which takes its
// time with very many.
func (n *namespace) take(known *namespace, routes []*v1alpha1.LLMRoute) bool {
	length := len(known.routes)
	if len(n.routes) > 0 || len(routes) < length || !slices.Equal(routes[:length], known.routes) {
		return false
	}
	n.routes = known.routes[:length:length]
	return true
}

func (n *namespace) sameAs(known *namespace) bool {
	return known != nil && slices.Equal(n.routes, known.routes) && slices.Equal(n.pins, known.pins) && slices.Equal(n.undecodable, known.undecodable)
}

// unreadRoute is a route whose draft is to be made.
type unreadRoute struct {
	object   *v1alpha1.LLMRoute
	position int
	draft    **routeDraft
}

// recallDrafts takes over the drafts that are known, and returns the routes that are to be read. Of two with one key the first
// counts.
func (n *namespace) recallDrafts(c *compilation) []unreadRoute {
	known := c.earlier.namespaces[n.name]
	if !n.changed {
		n.read = known.read
		return nil
	}
	n.read = make([]*routeDraft, len(n.routes))
	drafts := map[*v1alpha1.LLMRoute]*routeDraft{}
	if known != nil {
		for i, route := range known.routes {
			drafts[route] = known.read[i]
		}
	}
	var unread []unreadRoute
	names := make(map[string]bool, len(n.routes))
	for i, route := range n.routes {
		if names[route.Name] {
			continue
		}
		names[route.Name] = true
		if n.read[i] = drafts[route]; n.read[i] == nil || c.refersToChanged(route) {
			unread = append(unread, unreadRoute{object: route, draft: &n.read[i]})
			if n.positions != nil {
				unread[len(unread)-1].position = n.positions[i]
			}
		}
	}
	return unread
}

// finish works on copies of the drafts: what was read stays as it is, see routeDraft.own.
func (n *namespace) finish(c *compilation, r *reader) {
	byName := make(map[string]*routeDraft, len(n.read))
	drafts := make([]*routeDraft, 0, len(n.read))
	add := func(read *routeDraft) {
		d := *read
		if d.entry != nil {
			if holder := c.claims[d.entry.Model].holder; holder != read {
				d.loseTo(holder)
			}
		}
		byName[d.verdict.Key.Name] = &d
		drafts = append(drafts, &d)
	}
	for _, read := range n.read {
		if read != nil {
			add(read)
		}
	}
	for _, u := range n.undecodable {
		if u.Kind == KindRoute && byName[u.Key.Name] == nil {
			add(undecodableRoute(u))
		}
	}
	slices.SortFunc(drafts, func(a, b *routeDraft) int { return cmp.Compare(a.verdict.Key.Name, b.verdict.Key.Name) })
	lowerSharedLimits(drafts)
	n.applyPins(r, c.now, drafts, byName)
	n.collect(drafts)
}

// collect keeps what comes of the drafts.
func (n *namespace) collect(drafts []*routeDraft) {
	n.verdicts, n.entries = make([]*RouteVerdict, 0, len(drafts)), make([]placedEntry, 0, len(drafts))
	for _, d := range drafts {
		n.verdicts = append(n.verdicts, d.verdict)
		if d.entry != nil {
			n.entries = append(n.entries, placedEntry{d.entry, d.shard})
		}
	}
}

// holdsAt says whether the same comes of the namespace at another time.
func (n *namespace) holdsAt(now time.Time) bool {
	return !now.Before(n.since) && (n.until.IsZero() || now.Before(n.until))
}
