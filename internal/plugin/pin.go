package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// pinCommand makes a pin, or moves the end of the one that it made before.
type pinCommand struct {
	*cli
	pinFlags
	dryRun bool
	format format
}

// pinFlags say what to pin.
type pinFlags struct {
	routes             []string // the arguments
	all                bool
	selector           string
	backend, mode      string
	name, reason       string
	lasts, until, from string // --for, --until, --at
}

func newPin(c *cli) *cobra.Command {
	p := &pinCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "pin ROUTE... --backend NAME (--for DURATION | --until TIME)",
		Short: "Move a backend to the front or the back of a route's chain until a certain time",
		Long: `Move a backend to the front or the back of a route's chain until a certain time.

  --mode prefer   the backend goes to the front; the others rest and serve only when it cannot
  --mode avoid    the backend goes to the back and rests
  --mode only     nothing else serves: requests fail while the backend cannot

A pin always ends, at the latest seven days after its start. The name follows from routes, mode and backend, so the same
command once more moves the end of the same pin. To pin a route you need the verb "pin" on it.`,
		Example: `  # Three hours of a game: the hosted model first
  kubectl spillway pin default --backend hosted --for 3h --reason "game night"

  # From eight until midnight, leave the tower alone, on every route that uses it
  kubectl spillway pin --all --backend tower --mode avoid --at 20:00 --until 23:59

  # What would be written, without writing it
  kubectl spillway pin default --backend hosted --for 1h --dry-run -o yaml`,
		ValidArgsFunction: c.completeManyRoutes,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.routes = args
			if err := p.check(); err != nil {
				return usage(cmd, "%s", err)
			}
			return p.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	p.declare(cmd)
	flags.BoolVar(&p.dryRun, "dry-run", false, "ask the API server whether it would accept the pin, and change nothing")
	addFormat(cmd, &p.format, formatJSON, formatYAML)
	_ = cmd.RegisterFlagCompletionFunc("backend", c.completeBackends) // these flags exist
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(slices.Sorted(maps.Keys(pinModes)), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *pinFlags) declare(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "pin every route of the namespace, also those that come later")
	flags.StringVarP(&f.selector, "selector", "l", "", "pin the routes with these labels, such as team=red")
	flags.StringVarP(&f.backend, "backend", "b", "", "name of the backend in the chain")
	flags.StringVar(&f.mode, "mode", "prefer", "prefer, avoid or only")
	flags.StringVar(&f.lasts, "for", "", "how long, such as 3h or 1h30m")
	flags.StringVar(&f.until, "until", "", "until when: 23:00, \"2026-12-31 23:00\" or RFC 3339; without a zone it is yours")
	flags.StringVar(&f.from, "at", "", "when it starts, written as for --until (default: now)")
	flags.StringVar(&f.reason, "reason", "", "why, for those who look; at most 256 characters")
	flags.StringVar(&f.name, "name", "", "name of the pin (default: from routes, mode and backend)")
}

// check finds what is missing or contradicts itself.
func (f *pinFlags) check() error {
	ways := 0
	for _, used := range []bool{len(f.routes) > 0, f.all, f.selector != ""} {
		if used {
			ways++
		}
	}
	switch {
	case ways != 1:
		return errors.New("say which routes to pin: ROUTE..., --all or --selector, exactly one of them")
	case f.backend == "":
		return errors.New("say which backend with --backend")
	case pinModes[strings.ToLower(f.mode)] == "":
		return fmt.Errorf("--mode %q is none of prefer, avoid and only", f.mode)
	case (f.lasts == "") == (f.until == ""):
		return errors.New("say until when, with either --for 3h or --until 23:00: a pin always ends")
	}
	return nil
}

func (p *pinCommand) run(ctx context.Context) error {
	namespace, err := p.cli.namespace()
	if err != nil {
		return err
	}
	wanted, err := p.build(namespace, p.Clock.Now(), p.Zone)
	if err != nil {
		return err
	}
	api, err := p.connect()
	if err != nil {
		return err
	}
	if err := p.checkBackend(ctx, api, wanted); err != nil {
		return err
	}
	var writer client.Client = api
	if p.dryRun {
		writer = client.NewDryRunClient(api)
	}
	pin, did, err := p.put(ctx, writer, wanted)
	if err != nil {
		return err
	}
	if p.format.structured() {
		setKind(pin)
		return p.format.print(p.Out, pin)
	}
	p.tell(pin, did)
	return nil
}

// checkBackend refuses a name that none of the routes has in its chain: such a pin would do nothing, silently. Where the
// routes cannot be read, that is not this command's to judge.
func (p *pinCommand) checkBackend(ctx context.Context, api client.Reader, pin *v1alpha1.BackendPin) error {
	routes, err := listRoutes(ctx, api, scope{namespace: pin.Namespace})
	if err != nil {
		if apierrors.IsForbidden(err) {
			return nil
		}
		return err
	}
	verdict := compile(routes, []v1alpha1.BackendPin{*pin}, p.Clock.Now()).Pins[keyOf(pin)]
	switch {
	case len(verdict.UnknownRoutes) > 0:
		return fmt.Errorf("there is no route %q in the namespace %s", verdict.UnknownRoutes[0], pin.Namespace)
	case len(verdict.MatchedRoutes) > 0 && len(verdict.MissingIn) == len(verdict.MatchedRoutes):
		return fmt.Errorf("no route here has a backend %q; there are: %s", p.backend, strings.Join(backendsOf(routes, verdict.MatchedRoutes), ", "))
	}
	for _, name := range verdict.MissingIn {
		fmt.Fprintf(p.ErrOut, "Note: the route %s has no backend %s, so the pin does nothing there.\n", name, p.backend)
	}
	if len(verdict.MatchedRoutes) == 0 {
		fmt.Fprintln(p.ErrOut, "Note: no route has these labels now, so the pin does nothing yet.")
	}
	return nil
}

func backendsOf(routes []v1alpha1.LLMRoute, names []string) []string {
	var found []string
	for _, r := range routes {
		if !slices.Contains(names, r.Name) {
			continue
		}
		for _, b := range r.Spec.Chain {
			found = append(found, b.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// tell says what holds now, until when, and how to end it.
func (p *pinCommand) tell(pin *v1alpha1.BackendPin, did string) {
	m := p.moment(false)
	verdict := judge([]v1alpha1.BackendPin{*pin}, m.now).of(pin)
	if p.dryRun {
		did += " (dry run)"
	}
	fmt.Fprintf(p.Out, "backendpin.spillway.dev/%s %s\n", pin.Name, did)
	for _, problem := range verdict.Problems {
		fmt.Fprintf(p.ErrOut, "Warning: the pin does nothing: %s\n", problem)
	}
	if len(verdict.Problems) > 0 {
		return
	}
	from := "now"
	if verdict.StartsAt.After(m.now) {
		from = m.untilText(verdict.StartsAt)
	}
	fmt.Fprintf(p.Out, "%s: requests go to %s, from %s until %s.\n",
		routesOf(&pin.Spec.Routes), effect(pin.Spec.Mode, pin.Spec.Backend), from, m.untilText(verdict.ExpiresAt))
	if pin.Spec.Mode == v1alpha1.PinOnly {
		fmt.Fprintf(p.ErrOut, "Note: while %s cannot serve, requests fail; --mode prefer would let them spill over.\n", pin.Spec.Backend)
	}
	if !p.dryRun {
		fmt.Fprintf(p.Out, "End it earlier: kubectl spillway unpin %s -n %s\n", pin.Name, pin.Namespace)
	}
}

// object is the pin without its times.
func (f *pinFlags) object(namespace string) (*v1alpha1.BackendPin, error) {
	pin := &v1alpha1.BackendPin{
		ObjectMeta: metav1.ObjectMeta{Name: f.name, Namespace: namespace},
		Spec: v1alpha1.BackendPinSpec{
			Backend: f.backend, Mode: pinModes[strings.ToLower(f.mode)], Reason: f.reason,
		},
	}
	switch {
	case f.all:
		pin.Spec.Routes.Selector = &v1alpha1.RouteSelector{}
	case f.selector != "":
		selector, err := selectorOf(f.selector)
		if err != nil {
			return nil, fmt.Errorf("--selector: %w", err)
		}
		pin.Spec.Routes.Selector = selector
	default:
		pin.Spec.Routes.Names = slices.Compact(slices.Sorted(slices.Values(f.routes)))
	}
	if pin.Name == "" {
		pin.Name = f.defaultName(pin.Spec.Routes.Names)
	}
	return pin, nil
}
