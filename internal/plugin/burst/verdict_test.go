package burst

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	limitOff     = Limit{Known: true}
	limitOn      = Limit{Known: true, On: true, Text: "1 per 1s, burst 4"}
	limitUnknown = Limit{Unknown: "a model was named, not a route"}
)

// script answers the calls of a run: nth is the place of a call in its burst, from 0.
func script(t *testing.T, answer func(concurrency, nth int) Answer) ([]Level, *Answer) {
	t.Helper()
	var levels []Level
	var settled *Answer
	plan := DefaultPlan
	synctest.Test(t, func(t *testing.T) {
		var nth atomic.Int64
		burst := 0
		call := func(context.Context) Answer {
			place := int(nth.Add(1)) - 1
			a := answer(plan.Levels[burst/plan.Repeats], place)
			time.Sleep(a.Took)
			return a
		}
		var err error
		levels, settled, err = Run(t.Context(), plan, call, func(int, *Level) {
			burst++
			nth.Store(0)
		})
		if err != nil {
			t.Error(err)
		}
	})
	return levels, settled
}

func TestVerdicts(t *testing.T) {
	ok := Answer{Status: 200, Took: 10 * time.Millisecond}
	over := func(n int, shed Answer) func(int, int) Answer {
		return func(_, nth int) Answer {
			if nth >= n {
				return shed
			}
			return ok
		}
	}
	always := func(a Answer) func(int, int) Answer { return func(int, int) Answer { return a } }
	busy := Answer{Status: 503, Code: "backend_saturated", RetryAfter: true}
	cases := map[string]struct {
		answer       func(concurrency, nth int) Answer
		limit        Limit
		wantFinding  Finding
		wantStrength Strength
		wantSays     []string // parts, each in some sentence
		wantNot      string
	}{
		"a flat run is weak, whatever is known": {
			answer: always(ok), limit: limitOff, wantFinding: Flat, wantStrength: StrengthWeak,
			wantSays: []string{`All 138 calls were admitted. That cannot tell "no admission control" from "absorbed"`, "above 30 calls at once", "stands on 3 calls"},
		},
		"a flat run that slows down says so": {
			answer: func(concurrency, _ int) Answer {
				return Answer{Status: 200, Took: time.Duration(concurrency) * 10 * time.Millisecond}
			}, limit: limitOff, wantFinding: Flat, wantStrength: StrengthWeak,
			wantSays: []string{"The median grew from 10 ms to 300 ms"},
		},
		"shed by the route's own limit": {
			answer: over(4, Answer{Status: 429, Code: "rate_limited", RetryAfter: true}), limit: limitOn,
			wantFinding: RouteLimit, wantStrength: StrengthNone,
			wantSays: []string{"the route's own limit was measured, not the backend", "is on (1 per 1s, burst 4)", "Every shed answer carried Retry-After."},
		},
		"shed by something else, consistently, with the limit off": {
			answer: over(8, busy), limit: limitOff, wantFinding: Shedding, wantStrength: StrengthFair,
			wantSays: []string{"72 of 138 calls were shed, the first ones at concurrency 10", "rate limit is off"},
		},
		"the same with the limit on is weak": {
			answer: over(8, busy), limit: limitOn, wantFinding: Shedding, wantStrength: StrengthWeak,
			wantSays: []string{"it may be what was measured"},
		},
		"the same without knowing the limit is weak": {
			answer: over(8, busy), limit: limitUnknown, wantFinding: Shedding, wantStrength: StrengthWeak,
			wantSays: []string{"is not known (a model was named, not a route)"},
		},
		"without Retry-After": {
			answer: over(8, Answer{Status: 429}), limit: limitOff, wantFinding: Shedding, wantStrength: StrengthFair,
			wantSays: []string{"0 of 72 shed answers carried Retry-After"},
		},
		"shed and failed is weak": {
			answer: func(_, nth int) Answer {
				switch {
				case nth < 8:
					return ok
				case nth == 8:
					return Answer{Failure: "connection"}
				}
				return busy
			}, limit: limitOff, wantFinding: Shedding, wantStrength: StrengthWeak, wantSays: []string{"calls failed in other ways"},
		},
		"failures alone say nothing": {
			answer: over(3, Answer{Failure: "timeout"}), limit: limitOff, wantFinding: Unclear, wantStrength: StrengthNone,
			wantSays: []string{"failed without being shed"},
		},
		"two backends are the chain and not one backend": {
			answer: func(_, nth int) Answer { return Answer{Status: 200, Backend: []string{"tower", "hosted"}[nth%2]} },
			limit:  limitOff, wantFinding: Flat, wantStrength: StrengthWeak,
			wantSays: []string{"More than one backend answered (hosted"},
		},
		"a wrong model ends the run": {
			answer: always(Answer{Status: 404, Code: "model_not_found"}), limit: limitOff,
			wantFinding: Refused, wantStrength: StrengthNone, wantSays: []string{"status 404, model_not_found"}, wantNot: "stands on",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			levels, settled := script(t, tc.answer)
			v := Judge(levels, settled, tc.limit)
			if v.Finding != tc.wantFinding || v.Strength != tc.wantStrength {
				t.Errorf("got %s, %s; want %s, %s", v.Finding, v.Strength, tc.wantFinding, tc.wantStrength)
			}
			all := strings.Join(v.Says, "\n")
			for _, part := range tc.wantSays {
				if !strings.Contains(all, part) {
					t.Errorf("%q is not in:\n%s", part, all)
				}
			}
			if tc.wantNot != "" && strings.Contains(all, tc.wantNot) {
				t.Errorf("%q is in:\n%s", tc.wantNot, all)
			}
		})
	}
}

func TestTheDefaultPlanMakes138Calls(t *testing.T) {
	if got := DefaultPlan.Calls(); got != 138 {
		t.Errorf("got %d", got)
	}
}

func TestAWrongModelCostsOneCall(t *testing.T) {
	levels, _ := script(t, func(int, int) Answer { return Answer{Status: 404} })
	if r := NewRecord(DefaultPlan, levels, nil, limitOff); r.Made != 1 || r.Complete {
		t.Errorf("made %d, complete %v", r.Made, r.Complete)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		levels, _, err := Run(ctx, Plan{Levels: []int{2}, Repeats: 5, Pause: 20 * time.Second},
			func(ctx context.Context) Answer { return Answer{Status: 200} }, func(int, *Level) {})
		if err == nil || levels[0].Calls != 6 && levels[0].Calls != 8 {
			t.Errorf("error %v after %d calls", err, levels[0].Calls)
		}
	})
}

func TestLatency(t *testing.T) {
	ms := func(all ...int) (took []time.Duration) {
		for _, n := range all {
			took = append(took, time.Duration(n)*time.Millisecond)
		}
		return took
	}
	var hundred []int
	for i := range 100 {
		hundred = append(hundred, 100-i)
	}
	cases := map[string]struct {
		took []time.Duration
		want *Latency
	}{
		"none":    {nil, nil},
		"one":     {ms(7), &Latency{7, 7, 7, 7}},
		"three":   {ms(3, 1, 2), &Latency{2, 3, 3, 3}},
		"hundred": {ms(hundred...), &Latency{50, 90, 99, 100}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, latencyOf(tc.took)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
