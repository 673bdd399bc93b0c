package callerauth

import (
	"context"
	"net/http"
	"slices"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

// maxListQuestions bounds what one list may ask of the API server. What it would have to ask beyond is not listed, and can
// be used all the same.
const maxListQuestions = 64

// Usable implements proxy.Authorizer. A permission for all routes, or for all of a namespace, is one
// question; only what is left is asked route by route.
func (k *Kubernetes) Usable(ctx context.Context, header http.Header, routes []*table.Route) ([]*table.Route, string, *openai.Error) {
	caller, refusal := k.identify(ctx, header)
	if refusal != nil {
		return nil, "", refusal
	}
	name := caller.user.Username
	if len(routes) == 0 {
		return nil, name, nil
	}
	asked := 0
	ask := func(namespace, name string) (bool, error) {
		if !k.verdicts.has(verdictKey(caller, namespace, name)) {
			if asked++; asked > maxListQuestions {
				return false, nil
			}
		}
		return k.mayUse(ctx, caller, namespace, name)
	}
	usable, err := filter(routes, ask)
	if err != nil {
		return nil, name, unchecked(ctx)
	}
	return usable, name, nil
}

// filter asks from the widest permission to the narrowest.
func filter(routes []*table.Route, ask func(namespace, name string) (bool, error)) ([]*table.Route, error) {
	if all, err := ask("", ""); all || err != nil {
		return routes, err
	}
	whole := map[string]bool{}
	for _, namespace := range namespacesOf(routes) {
		var err error
		if whole[namespace], err = ask(namespace, ""); err != nil {
			return nil, err
		}
	}
	var usable []*table.Route
	for _, route := range routes {
		allowed := whole[route.Namespace]
		if !allowed {
			var err error
			if allowed, err = ask(route.Namespace, route.Name); err != nil {
				return nil, err
			}
		}
		if allowed {
			usable = append(usable, route)
		}
	}
	return usable, nil
}

func namespacesOf(routes []*table.Route) []string {
	names := make([]string, 0, len(routes))
	for _, route := range routes {
		names = append(names, route.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
