package plugin

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/compiler"
	"github.com/spillway-dev/spillway/internal/status"
)

func comparePins(a, b *v1alpha1.BackendPin) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// pinModes are the modes as they are typed.
var pinModes = map[string]v1alpha1.PinMode{
	"prefer": v1alpha1.PinPrefer, "avoid": v1alpha1.PinAvoid, "only": v1alpha1.PinOnly,
}

// effect says what a pin does: "hosted first".
func effect(mode v1alpha1.PinMode, backend string) string {
	switch mode {
	case v1alpha1.PinAvoid:
		return backend + " last"
	case v1alpha1.PinOnly:
		return backend + " and nowhere else"
	default:
		return backend + " first"
	}
}

// routesOf names the routes of a pin: names, or the selector.
func routesOf(r *v1alpha1.PinRoutes) string {
	if r.Selector == nil {
		return strings.Join(r.Names, ", ")
	}
	selector, err := r.Selector.Selector()
	switch {
	case err != nil:
		return "an unreadable selector"
	case selector.Empty():
		return "every route"
	default:
		return "routes with " + selector.String()
	}
}

// selectorOf turns the text of -l into the selector of a pin.
func selectorOf(text string) (*v1alpha1.RouteSelector, error) {
	if _, err := labels.Parse(text); err != nil {
		return nil, err
	}
	plain, err := metav1.ParseToLabelSelector(text)
	if err != nil {
		return nil, err
	}
	selector := &v1alpha1.RouteSelector{}
	for key, value := range plain.MatchLabels {
		if selector.MatchLabels == nil {
			selector.MatchLabels = map[string]v1alpha1.LabelValue{}
		}
		selector.MatchLabels[key] = v1alpha1.LabelValue(value)
	}
	for _, e := range plain.MatchExpressions {
		values := make([]v1alpha1.LabelValue, len(e.Values))
		for i, v := range e.Values {
			values[i] = v1alpha1.LabelValue(v)
		}
		selector.MatchExpressions = append(selector.MatchExpressions,
			v1alpha1.RouteSelectorRequirement{Key: e.Key, Operator: v1alpha1.SelectorOperator(e.Operator), Values: values})
	}
	return selector, nil
}

// verdicts are what the compiler makes of pins, with the phase by the clock. A stored status may lag behind the second.
type verdicts struct {
	result compiler.Result
	now    time.Time
}

func judge(pins []v1alpha1.BackendPin, now time.Time) verdicts {
	return verdicts{compile(nil, pins, now), now}
}

func (v verdicts) of(p *v1alpha1.BackendPin) *compiler.PinVerdict {
	return v.result.Pins[keyOf(p)]
}

func (v verdicts) phase(p *v1alpha1.BackendPin) v1alpha1.PinPhase {
	return status.PhaseInTime(v.of(p), v.now)
}

// over says whether a pin has ended.
func (v verdicts) over(p *v1alpha1.BackendPin) bool { return v.phase(p) == v1alpha1.PinExpired }
