package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// unpinCommand ends pins by deleting them.
type unpinCommand struct {
	*cli
	all bool
}

func newUnpin(c *cli) *cobra.Command {
	u := &unpinCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "unpin (PIN | ROUTE)... | --all",
		Short: "End pins now: by name, those of a route, or all of the namespace",
		Long: `End pins now: by name, those of a route, or all of the namespace.

A name is first looked for among the pins, then among the routes; pin/NAME and route/NAME say which is meant. Of a route
only the pins end that are for this route alone: one that covers others too is named, and ends by its own name.`,
		Example: `  # The pins of a route
  kubectl spillway unpin default

  # One pin by its name
  kubectl spillway unpin pin/default-prefer-hosted

  # Every pin of the namespace
  kubectl spillway unpin --all`,
		ValidArgsFunction: c.completeEndable,
		RunE: func(cmd *cobra.Command, args []string) error {
			if u.all == (len(args) > 0) {
				return usage(cmd, "say what to end: PIN, ROUTE or --all, exactly one of them")
			}
			return u.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&u.all, "all", false, "end every pin of the namespace")
	return cmd
}

func (u *unpinCommand) run(ctx context.Context, args []string) error {
	namespace, err := u.namespace()
	if err != nil {
		return err
	}
	api, err := u.connect()
	if err != nil {
		return err
	}
	pins, err := listPins(ctx, api, namespace)
	if err != nil {
		return err
	}
	v := judge(pins, u.Clock.Now())
	live := slices.DeleteFunc(slices.Clone(pins), func(p v1alpha1.BackendPin) bool { return v.over(&p) })
	if u.all {
		return u.end(ctx, api, live, "the namespace "+namespace)
	}
	var failed []error
	for _, arg := range args {
		failed = append(failed, u.endNamed(ctx, api, namespace, pinSet{pins, live, arg}))
	}
	return errors.Join(failed...)
}

// pinSet is what a name is looked for in.
type pinSet struct {
	all, live []v1alpha1.BackendPin
	arg       string
}

// named is the pin of that name, or nil where a route is meant or none has it.
func (s pinSet) named() *v1alpha1.BackendPin {
	name := strings.TrimPrefix(s.arg, "pin/")
	for i := range s.all {
		if s.all[i].Name == name {
			return &s.all[i]
		}
	}
	return nil
}

func (u *unpinCommand) endNamed(ctx context.Context, api client.Client, namespace string, s pinSet) error {
	if pin := s.named(); pin != nil {
		return u.end(ctx, api, []v1alpha1.BackendPin{*pin}, "")
	}
	if strings.HasPrefix(s.arg, "pin/") {
		return fmt.Errorf("there is no pin %q in the namespace %s", strings.TrimPrefix(s.arg, "pin/"), namespace)
	}
	name := strings.TrimPrefix(s.arg, "route/")
	var route v1alpha1.LLMRoute
	if err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &route); err != nil {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("there is neither a pin nor a route %q in the namespace %s", name, namespace)
		}
		return err
	}
	alone, shared := split(s.live, &route, u.Clock.Now())
	for i := range shared {
		fmt.Fprintf(u.ErrOut, "Note: %s covers other routes too (%s) and goes on; end it by its name: kubectl spillway unpin %s -n %s\n",
			shared[i].Name, routesOf(&shared[i].Spec.Routes), shared[i].Name, namespace)
	}
	return u.end(ctx, api, alone, "the route "+name)
}

// split returns the pins that are for the route alone, and those that cover it among others.
func split(pins []v1alpha1.BackendPin, route *v1alpha1.LLMRoute, now time.Time) (alone, shared []v1alpha1.BackendPin) {
	result := compile([]v1alpha1.LLMRoute{*route}, pins, now)
	for _, p := range pins {
		switch {
		case !slices.Contains(result.Pins[keyOf(&p)].MatchedRoutes, route.Name):
		case len(p.Spec.Routes.Names) == 1:
			alone = append(alone, p)
		default:
			shared = append(shared, p)
		}
	}
	return alone, shared
}

// end deletes pins. of is where they were looked for.
func (u *unpinCommand) end(ctx context.Context, api client.Client, pins []v1alpha1.BackendPin, of string) error {
	if len(pins) == 0 {
		fmt.Fprintf(u.ErrOut, "No pin of %s had to be ended.\n", of)
	}
	var failed []error
	for i := range pins {
		if err := api.Delete(ctx, &pins[i]); client.IgnoreNotFound(err) != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(u.Out, "backendpin.spillway.dev/%s ended\n", pins[i].Name)
	}
	return errors.Join(failed...)
}
