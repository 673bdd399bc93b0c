package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowJudgesWhatItsTargetsAreFor(t *testing.T) {
	results := map[string][]float64{goBase: {100, 200, 100}, ours: {90, 240, 130}} // ratios 0.9, 1.2, 1.3
	cases := map[string]struct {
		row         row
		results     map[string][]float64
		want        float64
		wantVerdict string
	}{
		"a ratio is the median of the rounds' ratios": {row: row{must: 1.3, goal: 1.1}, results: results, want: 1.2, wantVerdict: "must"},
		"less is better":                       {row: row{must: 1.3, goal: 1.2}, results: results, want: 1.2, wantVerdict: "goal"},
		"more is better":                       {row: row{must: 1.25, goal: 1.3, atLeast: true}, results: results, want: 1.2, wantVerdict: "**missed**"},
		"an absolute number is our own median": {row: row{must: 150, goal: 120, absolute: true}, results: results, want: 130, wantVerdict: "must"},
		"a base of nothing gives no ratio": {row: row{must: 1, goal: 1}, results: map[string][]float64{goBase: {0}, ours: {1}},
			want: math.NaN(), wantVerdict: ""},
		"nothing measured": {row: row{must: 1, goal: 1}, want: math.NaN(), wantVerdict: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.row.judged(tc.results)
			if got != tc.want && !(math.IsNaN(got) && math.IsNaN(tc.want)) {
				t.Errorf("judged = %v, want %v", got, tc.want)
			}
			if verdict := tc.row.verdict(got); verdict != tc.wantVerdict {
				t.Errorf("verdict = %q, want %q", verdict, tc.wantVerdict)
			}
		})
	}
}

func TestLineLeavesOutWhoWasNotMeasured(t *testing.T) {
	r := row{title: "requests", atLeast: true, must: 0.9, goal: 1.25}
	got := r.line(map[string][]float64{goBase: {8000}, ours: {9000}}, columns)
	want := "| requests |  | 8000 | 9000 | 1.12 | >= 0.90 | >= 1.25 | must |\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if got := r.line(nil, columns); got != "" {
		t.Errorf("line of nothing = %q, want none", got)
	}
}

func TestFlags(t *testing.T) {
	cases := map[string]struct {
		args   []string
		wantOK bool
	}{
		"none":              {wantOK: true},
		"some parts":        {args: []string{"-only", "unary,opened"}, wantOK: true},
		"an unknown part":   {args: []string{"-only", "unary,speed"}},
		"no repeats":        {args: []string{"-repeats", "0"}},
		"too short windows": {args: []string{"-window", "10ms"}},
		"an argument":       {args: []string{"fast"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(tc.args); (err == nil) != tc.wantOK {
				t.Errorf("error = %v, want ok %t", err, tc.wantOK)
			}
		})
	}
}
