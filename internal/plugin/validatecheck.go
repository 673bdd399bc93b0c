package plugin

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/standalone"
)

// checker turns the compiler's verdicts into remarks about places in files.
type checker struct {
	*standalone.Collection
	standalone bool
	now        time.Time
}

// files says what is wrong with the files themselves. Kinds of others are at home in the files of a cluster.
func (c *checker) files() []remark {
	var remarks []remark
	for _, m := range c.Messages {
		if !m.Foreign || c.standalone {
			remarks = append(remarks, remark{File: m.File, Line: m.Line, Message: m.Text, Note: m.Foreign})
		}
	}
	return remarks
}

func (c *checker) routes(result *compiler.Result) []remark {
	var remarks []remark
	for _, verdict := range result.SortedRoutes() {
		for _, p := range verdict.Problems {
			r := c.remark(compiler.KindRoute, verdict.Key, p.Field, p.Message)
			if !c.standalone && elsewhere(p.Reason) {
				r.Message, r.Note = "What this refers to is not in these files, so it is not checked.", true
			}
			remarks = append(remarks, r)
		}
	}
	return remarks
}

// elsewhere says whether what a route names may well be in the cluster.
func elsewhere(reason v1alpha1.ConditionReason) bool {
	switch reason {
	case v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonConfigMapNotFound, v1alpha1.ReasonServiceNotFound:
		return true
	}
	return false
}

func (c *checker) pins(result *compiler.Result) []remark {
	var remarks []remark
	for _, verdict := range result.SortedPins() {
		say := func(field, message string, note bool) {
			r := c.remark(compiler.KindPin, verdict.Key, field, message)
			r.Note = note
			remarks = append(remarks, r)
		}
		for _, p := range verdict.Problems {
			say(p.Field, p.Message, false)
		}
		if !verdict.Accepted() {
			continue
		}
		for _, name := range verdict.UnknownRoutes {
			say("spec.routes.names", fmt.Sprintf("The route %q is not in these files.", name), true)
		}
		for _, name := range verdict.MissingIn {
			say("spec.backend", fmt.Sprintf("The route %q has no such backend, so the pin does nothing there.", name), true)
		}
		if !verdict.ExpiresAt.After(c.now) {
			say("spec.expiresAt", "The pin has ended.", true)
		}
	}
	return remarks
}

// remark finds the place of a field.
func (c *checker) remark(kind compiler.Kind, key types.NamespacedName, field, message string) remark {
	file, line := c.Place(kind, key, field)
	return remark{File: file, Line: line, Object: string(kind) + " " + key.String(), Field: field, Message: message}
}
