package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/table"
)

// explainCommand tells what would become of a request.
type explainCommand struct {
	*cli
	prefer, at   string
	saturated    []string
	promptTokens int64
	format       format
}

func newExplain(c *cli) *cobra.Command {
	e := &explainCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "explain ROUTE",
		Short: "Explain step by step where a request would go, and why; also: what if",
		Long: `Explain step by step where a request would go, and why; also: what if.

The order is made by the same code that the proxies run: the chain, the caller's hint, pins, context windows, breakers.
The state of the breakers is that of the route's status. Secrets and Services are not read; whether they resolve is in
the status too.`,
		Example: `  # Where does a request go now, and why?
  kubectl spillway explain default

  # And if the caller asks for the tower, while the tower is busy?
  kubectl spillway explain default --prefer tower --saturated tower

  # And at half past eleven, with a long prompt?
  kubectl spillway explain default --at 23:30 --prompt-tokens 60000`,
		Args:              oneRoute,
		ValidArgsFunction: c.completeRoutes,
		RunE:              func(cmd *cobra.Command, args []string) error { return e.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&e.prefer, "prefer", "", "what the caller sends as X-Prefer-Backend")
	flags.StringSliceVar(&e.saturated, "saturated", nil, "what if this backend were saturated; may be repeated")
	flags.StringVar(&e.at, "at", "", "what if it were this time: 23:00, \"2026-12-31 23:00\" or RFC 3339")
	flags.Int64Var(&e.promptTokens, "prompt-tokens", 0, "size of the prompt; 0: not known, no backend is skipped for it")
	addFormat(cmd, &e.format, formatWide, formatJSON, formatYAML)
	_ = cmd.RegisterFlagCompletionFunc("prefer", c.completeBackends) // these flags exist
	_ = cmd.RegisterFlagCompletionFunc("saturated", c.completeBackends)
	return cmd
}

func (e *explainCommand) run(ctx context.Context, name string) error {
	namespace, err := e.namespace()
	if err != nil {
		return err
	}
	q := question{at: e.Clock.Now(), prefer: e.prefer, saturated: e.saturated, promptTokens: e.promptTokens}
	if e.at != "" {
		if q.at, err = parseTime(e.at, q.at, e.Zone); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
		q.whatIf = true
	}
	api, err := e.connect()
	if err != nil {
		return err
	}
	var route v1alpha1.LLMRoute
	if err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &route); err != nil {
		return err
	}
	pins, err := listPins(ctx, api, namespace)
	if err != nil {
		return err
	}
	answer, err := explain(&route, pins, q)
	if err != nil {
		return err
	}
	if e.format.structured() {
		return e.format.print(e.Out, answer)
	}
	m := e.moment(e.format == formatWide)
	m.now = q.at
	return answer.print(e.Out, m)
}

// question is what explain is asked, beside the route.
type question struct {
	at           time.Time
	whatIf       bool // at is not now
	prefer       string
	saturated    []string
	promptTokens int64
}

// explanation is the answer. It names no host.
type explanation struct {
	Namespace string    `json:"namespace"`
	Route     string    `json:"route"`
	Model     string    `json:"model"`
	At        time.Time `json:"at"`
	// Steps in the order in which they are taken, each with the order of backends that it leaves.
	Steps []explainedStep `json:"steps"`
	// First is where a request goes; empty where it is turned away. Reason is what X-Spillway-Reason says.
	First      string           `json:"first"`
	Reason     string           `json:"reason,omitempty"`
	Preference string           `json:"preference,omitempty"` // what X-Spillway-Preference says
	Skipped    []skippedBackend `json:"skipped,omitempty"`
	AllOpen    bool             `json:"allOpen,omitempty"`
	RetryAt    *time.Time       `json:"retryAt,omitempty"` // with AllOpen
	// Notes say what the answer does not know.
	Notes []string `json:"notes,omitempty"`
}

// explainedStep is one step.
type explainedStep struct {
	Name  string   `json:"name"`
	Order []string `json:"order"`
	Why   []string `json:"why,omitempty"`
}

type skippedBackend struct {
	Backend string `json:"backend"`
	Why     string `json:"why"`
}

// explain compiles the route with its pins and asks the planner once more for each step.
func explain(route *v1alpha1.LLMRoute, pins []v1alpha1.BackendPin, q question) (*explanation, error) {
	pins = slices.DeleteFunc(slices.Clone(pins), rejected)
	result := compile([]v1alpha1.LLMRoute{*route}, pins, q.at)
	verdict := result.Routes[keyOf(route)]
	entry := result.Table().ByKey(keyOf(route).String())
	if entry == nil || len(entry.Chain) == 0 {
		return nil, fmt.Errorf("no backend of the route %s can be used: %s", route.Name, firstProblem(verdict.Problems))
	}
	p := &planner{question: q, route: route, entry: entry, status: &route.Status}
	p.leaveOutExcluded()
	p.judgePins(pins)
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	return p.answer(verdict.Model), nil
}

// namesOf is the chain in its order.
func namesOf(entry *table.Route) []string {
	names := make([]string, 0, len(entry.Chain))
	for i := range entry.Chain {
		names = append(names, entry.Chain[i].Name)
	}
	return names
}
