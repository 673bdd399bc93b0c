package plugin

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// completionTimeout bounds the wait of somebody who has pressed Tab.
const completionTimeout = 3 * time.Second

// complete calls suggest with a client and the namespace. Trouble means that there is nothing to suggest.
func (c *cli) complete(cmd *cobra.Command, suggest func(ctx context.Context, api client.Reader, namespace string) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	namespace, err := c.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	api, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := suggest(ctx, api, namespace)
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}

// completeRoutes suggests routes that are not named yet, for commands that take one.
func (c *cli) completeRoutes(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeManyRoutes(cmd, args, toComplete)
}

// completeManyRoutes is completeRoutes for commands that take several.
func (c *cli) completeManyRoutes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, api client.Reader, namespace string) []string {
		return slices.DeleteFunc(routeNames(ctx, api, namespace), func(name string) bool { return slices.Contains(args, name) })
	})
}

// completeBackends suggests the backends of the named routes, or of all.
func (c *cli) completeBackends(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, api client.Reader, namespace string) (names []string) {
		routes, err := listRoutes(ctx, api, scope{namespace: namespace})
		if err != nil {
			return nil
		}
		for _, r := range routes {
			if len(args) > 0 && !slices.Contains(args, r.Name) {
				continue
			}
			for _, b := range r.Spec.Chain {
				names = append(names, b.Name)
			}
		}
		return names
	})
}

// completeEndable suggests pins, and routes whose pins could be ended.
func (c *cli) completeEndable(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, api client.Reader, namespace string) []string {
		var pins v1alpha1.BackendPinList
		_ = api.List(ctx, &pins, client.InNamespace(namespace)) // then there are none to suggest
		var names []string
		for _, p := range pins.Items {
			names = append(names, p.Name)
			names = append(names, p.Spec.Routes.Names...)
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	})
}

func routeNames(ctx context.Context, api client.Reader, namespace string) []string {
	routes, err := listRoutes(ctx, api, scope{namespace: namespace})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(routes))
	for _, r := range routes {
		names = append(names, r.Name)
	}
	return names
}
