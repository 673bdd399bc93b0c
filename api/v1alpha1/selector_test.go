package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestRouteSelector(t *testing.T) {
	red := labels.Set{"team": "red", "tier": "gold"}
	for name, tc := range map[string]struct {
		selector *RouteSelector
		want     bool
		bad      bool
	}{
		"no selector matches nothing":          {selector: nil},
		"an empty selector matches everything": {selector: &RouteSelector{}, want: true},
		"all labels must match": {
			selector: &RouteSelector{MatchLabels: map[string]LabelValue{"team": "red", "tier": "gold"}}, want: true,
		},
		"one label that differs is enough not to match": {
			selector: &RouteSelector{MatchLabels: map[string]LabelValue{"team": "red", "tier": "lead"}},
		},
		"a requirement that holds matches": {
			selector: &RouteSelector{MatchExpressions: []RouteSelectorRequirement{
				{Key: "team", Operator: SelectorIn, Values: []LabelValue{"blue", "red"}},
				{Key: "old", Operator: SelectorDoesNotExist},
			}},
			want: true,
		},
		"a requirement that does not hold does not match": {
			selector: &RouteSelector{MatchExpressions: []RouteSelectorRequirement{
				{Key: "team", Operator: SelectorNotIn, Values: []LabelValue{"red"}},
			}},
		},
		"In without values is an error": {
			selector: &RouteSelector{MatchExpressions: []RouteSelectorRequirement{{Key: "team", Operator: SelectorIn}}}, bad: true,
		},
		"an unknown operator is an error": {
			selector: &RouteSelector{MatchExpressions: []RouteSelectorRequirement{{Key: "team", Operator: "Like"}}}, bad: true,
		},
		"a key that is no label is an error": {
			selector: &RouteSelector{MatchLabels: map[string]LabelValue{"no label": "red"}}, bad: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.selector.Selector()
			if (err != nil) != tc.bad {
				t.Fatalf("error %v, want one: %v", err, tc.bad)
			}
			if err == nil && got.Matches(red) != tc.want {
				t.Errorf("%q matches: %v, want %v", got, !tc.want, tc.want)
			}
		})
	}
}
