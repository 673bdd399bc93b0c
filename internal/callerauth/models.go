package callerauth

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/openai"
	"github.com/spillway-dev/spillway/internal/table"
)

const (
	modelsPath = "/v1/models"
	// listWrite bounds the writing of the list.
	listWrite = 30 * time.Second
	// maxListQuestions bounds what one list may ask of the API server. What it would have to ask beyond is not listed, and
	// can be used all the same.
	maxListQuestions = 64
)

// gate is what Models needs of Kubernetes and Keys.
type gate interface {
	Authorize(ctx context.Context, header http.Header, route *table.Route) *openai.Error
	// Usable returns those of the routes that the caller may use, in their order, or why it is not let in at all.
	Usable(ctx context.Context, header http.Header, routes []*table.Route) ([]*table.Route, *openai.Error)
}

// Models stands in front of the pipeline and guards its list of models, which no route stands for: only callers who are let
// in see it, and each sees what it may use. All other requests go on to next untouched.
func Models(g gate, load func() *table.Table, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, one := strings.CutPrefix(r.URL.Path, modelsPath+"/")
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case !reads || !one && r.URL.Path != modelsPath:
			next.ServeHTTP(w, r)
		case one:
			if refusal := authorizeModel(g, r, load().ByModel(id)); refusal != nil {
				refuse(w, refusal)
				return
			}
			next.ServeHTTP(w, r)
		default:
			list(g, load(), w, r)
		}
	})
}

// authorizeModel lets callers see a model that they may use. Of one that does not exist those are told who are let in.
func authorizeModel(g gate, r *http.Request, route *table.Route) *openai.Error {
	if route == nil {
		_, refusal := g.Usable(r.Context(), r.Header, nil)
		return refusal
	}
	return g.Authorize(r.Context(), r.Header, route)
}

func list(g gate, t *table.Table, w http.ResponseWriter, r *http.Request) {
	routes := make([]*table.Route, 0, len(t.Models()))
	for _, model := range t.Models() {
		routes = append(routes, t.ByModel(model))
	}
	usable, refusal := g.Usable(r.Context(), r.Header, routes)
	if refusal != nil {
		refuse(w, refusal)
		return
	}
	ids := make([]string, 0, len(usable))
	for _, route := range usable {
		ids = append(ids, route.Model)
	}
	body := openai.AppendModelList(nil, ids)
	deadline(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error means that nobody is there
}

func refuse(w http.ResponseWriter, e *openai.Error) {
	deadline(w)
	if e.RetryAfter == 0 {
		w.Header().Set("X-Should-Retry", "false")
	}
	openai.WriteError(w, e)
}

// deadline keeps a caller that does not read from holding the connection.
func deadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listWrite))
}

// Usable returns the routes that the caller may use. A permission for all routes, or for all of a namespace, is one
// question; only what is left is asked route by route.
func (k *Kubernetes) Usable(ctx context.Context, header http.Header, routes []*table.Route) ([]*table.Route, *openai.Error) {
	caller, refusal := k.identify(ctx, header)
	if refusal != nil || len(routes) == 0 {
		return nil, refusal
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
		return nil, unchecked(ctx)
	}
	return usable, nil
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
