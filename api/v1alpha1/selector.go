package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// RouteSelector is a label selector with bounds: metav1.LabelSelector has none, so a rule over it has no cost limit.
// All parts must match; an empty selector matches everything.
type RouteSelector struct {
	// matchLabels are labels that must be there with these values.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements that must all hold.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	MatchExpressions []RouteSelectorRequirement `json:"matchExpressions,omitempty"`
}

// RouteSelectorRequirement is one requirement on one label.
type RouteSelectorRequirement struct {
	// key of the label.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key"`

	// operator relates key and values.
	// +required
	Operator SelectorOperator `json:"operator"`

	// values for In and NotIn; none for Exists and DoesNotExist.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// SelectorOperator relates a label and values, as metav1.LabelSelectorOperator does.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
// +kubebuilder:validation:MaxLength=16
type SelectorOperator string

// Selector operators.
const (
	SelectorIn           SelectorOperator = "In"           // the label has one of the values
	SelectorNotIn        SelectorOperator = "NotIn"        // the label is absent or has another value
	SelectorExists       SelectorOperator = "Exists"       // the label is there
	SelectorDoesNotExist SelectorOperator = "DoesNotExist" // the label is absent
)

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// Selector returns the selector to match labels with, or an error that names what is wrong with it. A nil
// RouteSelector matches nothing, as in metav1.
func (s *RouteSelector) Selector() (labels.Selector, error) {
	if s == nil {
		return labels.Nothing(), nil
	}
	plain := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(plain, key, string(value))
	}
	for _, e := range s.MatchExpressions {
		values := make([]string, 0, len(e.Values))
		for _, v := range e.Values {
			values = append(values, string(v))
		}
		plain.MatchExpressions = append(plain.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: values})
	}
	return metav1.LabelSelectorAsSelector(plain)
}
