package standalone

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
)

// Collection is what several files say together.
type Collection struct {
	// Snapshot holds the objects, the oldest first: in the order in which they were collected. Options are the caller's.
	Snapshot compiler.Snapshot
	// Messages tell of objects that are there twice, and of what was not readable.
	Messages []Message

	places map[string]*Object // by identity
}

// Collect puts objects together. Of those with one name the first counts.
func Collect(objects []Object) *Collection {
	c := &Collection{
		Snapshot: compiler.Snapshot{
			Secrets:    map[types.NamespacedName]*corev1.Secret{},
			ConfigMaps: map[types.NamespacedName]*corev1.ConfigMap{},
			Services:   map[types.NamespacedName]*corev1.Service{},
		},
		places: map[string]*Object{},
	}
	for i := range objects {
		o := &objects[i]
		if earlier, taken := c.places[o.identity()]; taken {
			c.Messages = append(c.Messages, Message{File: o.File, Line: o.Line, Text: fmt.Sprintf(
				"The %s %s is already in %s, line %d; this one is ignored.", o.Kind, o.Key(), earlier.File, earlier.Line)})
			continue
		}
		c.places[o.identity()] = o
		c.add(o)
	}
	return c
}

func (c *Collection) add(o *Object) {
	switch value := o.Value.(type) {
	case *v1alpha1.LLMRoute:
		c.Snapshot.Routes = append(c.Snapshot.Routes, value)
	case *v1alpha1.BackendPin:
		c.Snapshot.Pins = append(c.Snapshot.Pins, value)
	case *corev1.Secret:
		c.Snapshot.Secrets[o.Key()] = value
	case *corev1.ConfigMap:
		c.Snapshot.ConfigMaps[o.Key()] = value
	case *corev1.Service:
		c.Snapshot.Services[o.Key()] = value
	}
}

// Place is where a field of an object is: file and line. It is empty for an object that is not in the collection.
func (c *Collection) Place(kind compiler.Kind, key types.NamespacedName, field string) (file string, line int) {
	if o := c.places[string(kind)+" "+key.String()]; o != nil {
		return o.File, o.lineOf(field)
	}
	return "", 0
}

// mistakes are the messages, and what the compiler found, at its place: sorted by file and line, as a person mends them.
func (c *Collection) mistakes(result *compiler.Result) []Message {
	all := append([]Message(nil), c.Messages...)
	say := func(kind compiler.Kind, key types.NamespacedName, problems []compiler.Problem) {
		for _, p := range problems {
			m := Message{Text: fmt.Sprintf("%s %s: %s", kind, key, p)}
			m.File, m.Line = c.Place(kind, key, p.Field)
			all = append(all, m)
		}
	}
	for _, v := range result.SortedRoutes() {
		say(compiler.KindRoute, v.Key, v.Problems)
	}
	for _, v := range result.SortedPins() {
		say(compiler.KindPin, v.Key, v.Problems)
	}
	slices.SortStableFunc(all, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}
