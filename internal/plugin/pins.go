package plugin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// pinsCommand lists pins.
type pinsCommand struct {
	*cli
	allNamespaces bool
	format        format
}

func newPins(c *cli) *cobra.Command {
	p := &pinsCommand{cli: c}
	cmd := &cobra.Command{
		Use:   "pins",
		Short: "List pins: what they do, from when until when, who made them and why",
		Long: `List pins in the order in which they apply: the oldest first, so the last one has the last word.

Pins that have ended are listed until they are deleted, a day later by default.`,
		Example: `  # Pins of the namespace
  kubectl spillway pins

  # Pins of all namespaces, with times as RFC 3339
  kubectl spillway pins -A -o wide`,
		Args:              flagsOnly,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	cmd.Flags().BoolVarP(&p.allNamespaces, "all-namespaces", "A", false, "list the pins of all namespaces")
	addFormat(cmd, &p.format, formatWide, formatJSON, formatYAML)
	return cmd
}

func (p *pinsCommand) run(ctx context.Context) error {
	namespace, err := p.namespace()
	if err != nil {
		return err
	}
	if p.allNamespaces {
		namespace = ""
	}
	api, err := p.connect()
	if err != nil {
		return err
	}
	pins, err := listPins(ctx, api, namespace)
	if err != nil {
		return err
	}
	if p.format.structured() {
		for i := range pins {
			setKind(&pins[i])
		}
		return p.format.print(p.Out, &v1alpha1.BackendPinList{TypeMeta: kindOf("BackendPinList"), Items: pins})
	}
	if len(pins) == 0 {
		fmt.Fprintf(p.ErrOut, "There is no pin in %s\n", placeOf(namespace))
		return nil
	}
	return p.grid(pins, namespace == "").print(p.Out)
}

func (p *pinsCommand) grid(pins []v1alpha1.BackendPin, namespaces bool) *grid {
	m := p.moment(p.format == formatWide)
	v := judge(pins, m.now)
	t := &grid{header: []string{"NAME", "ROUTES", "EFFECT", "PHASE", "FROM", "UNTIL", "BY", "REASON"}}
	if namespaces {
		t.header = append([]string{"NAMESPACE"}, t.header...)
	}
	for i := range pins {
		pin := &pins[i]
		verdict := v.of(pin)
		cells := []string{
			pin.Name, routesOf(&pin.Spec.Routes), effect(pin.Spec.Mode, pin.Spec.Backend), phaseText(pin, v.phase(pin)),
			m.at(verdict.StartsAt), m.at(verdict.ExpiresAt), text(pin.Annotations[v1alpha1.AnnotationPinnedBy]), pin.Spec.Reason,
		}
		if namespaces {
			cells = append([]string{pin.Namespace}, cells...)
		}
		t.add(cells...)
	}
	return t
}

// phaseText says where a pin is by the clock, and what only the manager knows: whether the proxies have it as it is written, and why
// it does nothing. Whether it is accepted is the manager's to say, too, since how long a pin may last is set there.
func phaseText(p *v1alpha1.BackendPin, phase v1alpha1.PinPhase) string {
	because := func(t v1alpha1.ConditionType) string {
		if c := meta.FindStatusCondition(p.Status.Conditions, string(t)); c != nil {
			return fmt.Sprintf("%s (%s)", p.Status.Phase, c.Reason)
		}
		return string(p.Status.Phase)
	}
	switch {
	case unseen(p):
		return string(phase) + " (not seen by the manager)"
	case p.Status.Phase == v1alpha1.PinRejected:
		return because(v1alpha1.ConditionAccepted)
	case phase == v1alpha1.PinActive && p.Status.Phase == v1alpha1.PinIneffective:
		return because(v1alpha1.ConditionActive)
	default:
		return string(phase)
	}
}

// unseen says whether the manager has not seen a pin as it is now, so that the proxies know nothing of it, or of its last edit.
func unseen(p *v1alpha1.BackendPin) bool { return p.Status.ObservedGeneration < p.Generation }

func kindOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
}

// setKind writes apiVersion and kind, which a typed client drops.
func setKind(p *v1alpha1.BackendPin) {
	p.TypeMeta = kindOf("BackendPin")
	p.ManagedFields = nil
}

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

// untilText is the end of a pin with its zone, which is worth saying once: "23:00:00 CEST (in 3h)".
func (m moment) untilText(end time.Time) string {
	if m.full {
		return m.at(end)
	}
	return fmt.Sprintf("%s %s (%s)", m.clock(end), end.In(m.zone).Format("MST"), m.distance(end))
}
