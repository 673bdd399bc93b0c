package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// statusCommand shows routes and their backends.
type statusCommand struct {
	*cli
	allNamespaces, watch bool
	format               format
}

func newStatus(c *cli) *cobra.Command {
	s := &statusCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "status [ROUTE]",
		Short: "Show routes and backends: who serves, what is open, since when and until when",
		Long: `Show routes and backends: who serves, what is open, since when and until when.

BREAKER is Closed (in use), Open (passed over until UNTIL), HalfOpen (being asked one token) or Excluded (left out, as
something that it refers to is missing). SEEN BY counts the proxies that see it so, of all live ones.`,
		Example: `  # All routes of the namespace
  kubectl spillway status

  # One route, with times as RFC 3339 and the model
  kubectl spillway status default -o wide

  # All namespaces, and every change from now on
  kubectl spillway status -A --watch`,
		Args:              atMostOneRoute,
		ValidArgsFunction: c.completeRoutes,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && s.allNamespaces {
				return usage(cmd, "a ROUTE is of one namespace: leave out -A")
			}
			return s.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "show the routes of all namespaces")
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "go on and show every change")
	addFormat(cmd, &s.format, formatWide, formatJSON, formatYAML)
	return cmd
}

// scope is which routes a command looks at.
type scope struct {
	namespace string // empty: all
	name      string // empty: all
}

func (s *statusCommand) scope(args []string) (scope, error) {
	if s.allNamespaces {
		return scope{}, nil
	}
	namespace, err := s.namespace()
	if len(args) == 1 {
		return scope{namespace, args[0]}, err
	}
	return scope{namespace, ""}, err
}

func (s *statusCommand) run(ctx context.Context, args []string) error {
	what, err := s.scope(args)
	if err != nil {
		return err
	}
	api, err := s.connect()
	if err != nil {
		return err
	}
	if s.watch {
		return s.follow(ctx, api, what)
	}
	routes, err := listRoutes(ctx, api, what)
	if err != nil {
		return err
	}
	return s.show(routes, what)
}

// listRoutes returns the routes of a scope, sorted. One that is named must exist.
func listRoutes(ctx context.Context, api client.Reader, what scope) ([]v1alpha1.LLMRoute, error) {
	if what.name != "" {
		var route v1alpha1.LLMRoute
		err := api.Get(ctx, types.NamespacedName{Namespace: what.namespace, Name: what.name}, &route)
		return []v1alpha1.LLMRoute{route}, err
	}
	var list v1alpha1.LLMRouteList
	if err := api.List(ctx, &list, client.InNamespace(what.namespace)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.LLMRoute) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// placeOf ends the sentence that says where nothing was found.
func placeOf(namespace string) string {
	if namespace == "" {
		return "any namespace."
	}
	return "the namespace " + namespace + ". Look into another with -n, or into all with -A."
}

// show prints routes as the format says.
func (s *statusCommand) show(routes []v1alpha1.LLMRoute, what scope) error {
	if s.format.structured() {
		return s.format.print(s.Out, viewsOf(routes))
	}
	if len(routes) == 0 {
		fmt.Fprintf(s.ErrOut, "There is no route in %s\n", placeOf(what.namespace))
		return nil
	}
	v := statusView{moment: s.moment(s.format == formatWide), namespaces: what.namespace == ""}
	return v.print(s.Out, routes)
}

// routesView is the status for programs.
type routesView struct {
	Routes []routeView `json:"routes"`
}

// routeView is the status of a route beside its name; nothing of the spec, which holds hosts.
type routeView struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	v1alpha1.LLMRouteStatus
}

func viewsOf(routes []v1alpha1.LLMRoute) routesView {
	views := routesView{Routes: make([]routeView, 0, len(routes))}
	for i := range routes {
		r := &routes[i]
		views.Routes = append(views.Routes, routeView{r.Namespace, r.Name, r.Generation, r.Status})
	}
	return views
}
