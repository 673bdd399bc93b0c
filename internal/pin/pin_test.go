package pin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spillway-dev/spillway/internal/table"
)

// now is when the tests look; pins are in force around it unless they say otherwise.
var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func pinOn(mode table.PinMode, backend string) table.Pin {
	return table.Pin{Name: string(mode) + "-" + backend, Backend: backend, Mode: mode,
		StartsAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}
}

func between(p table.Pin, from, to time.Duration) table.Pin {
	p.StartsAt, p.ExpiresAt = now.Add(from), now.Add(to)
	return p
}

func prefer(backend string) table.Pin { return pinOn(table.PinPrefer, backend) }
func avoid(backend string) table.Pin  { return pinOn(table.PinAvoid, backend) }
func only(backend string) table.Pin   { return pinOn(table.PinOnly, backend) }

func TestPins(t *testing.T) {
	cases := map[string]struct {
		pins       []table.Pin
		wantOrder  string
		wantPinned bool
		wantRested []string
		wantStates string // per pin: A active, S superseded, N no backend, - not in force
	}{
		"without pins the chain stands": {wantOrder: "abc"},
		"Prefer moves to the front and rests all others": {
			[]table.Pin{prefer("c")}, "cab", true, []string{"a", "b"}, "A"},
		"Avoid moves to the back and rests the named one": {
			[]table.Pin{avoid("a")}, "bca", true, []string{"a"}, "A"},
		"Avoid of a later one does not decide who is first": {
			[]table.Pin{avoid("b")}, "acb", false, []string{"b"}, "A"},
		"Only filters and rests all others": {
			[]table.Pin{only("b")}, "b", true, []string{"a", "c"}, "A"},
		"the newest Prefer has the last word, and its choice is not rested": {
			[]table.Pin{prefer("b"), prefer("c")}, "cba", true, []string{"a", "b"}, "AA"},
		"a newer Avoid undoes a preference": {
			[]table.Pin{prefer("c"), avoid("c")}, "abc", true, []string{"c"}, "AA"},
		"a newer preference undoes an Avoid": {
			[]table.Pin{avoid("a"), prefer("a")}, "abc", true, []string{"b", "c"}, "AA"},
		"two Avoids stand from the oldest to the newest": {
			[]table.Pin{avoid("a"), avoid("b")}, "cab", true, []string{"a", "b"}, "AA"},
		"a newer Only supersedes an older one": {
			[]table.Pin{only("a"), only("b")}, "b", true, []string{"a", "c"}, "SA"},
		"a newer preference does not lift an Only": {
			[]table.Pin{only("a"), prefer("b")}, "a", true, []string{"b", "c"}, "AA"},
		"an Avoid that is newer than an Only rests its choice too": {
			[]table.Pin{only("a"), avoid("a")}, "a", true, []string{"a", "b", "c"}, "AA"},
		"an Only that is newer than an Avoid does not": {
			[]table.Pin{avoid("a"), only("a")}, "a", true, []string{"b", "c"}, "AA"},
		"an Only whose backend is left out of the table lets nothing through": {
			[]table.Pin{only("b"), only("z")}, "", true, []string{"a", "b", "c"}, "SN"},
		"a pin on a backend that the chain lacks does nothing": {
			[]table.Pin{prefer("z"), avoid("z")}, "abc", false, nil, "NN"},
		"a pin acts from its start": {
			[]table.Pin{between(only("c"), 0, time.Hour)}, "c", true, []string{"a", "b"}, "A"},
		"and not before": {
			[]table.Pin{between(only("c"), time.Nanosecond, time.Hour)}, "abc", false, nil, "-"},
		"to its end, exclusive": {
			[]table.Pin{between(only("c"), -time.Hour, 0)}, "abc", false, nil, "-"},
		"Prefer and Avoid do not act before their start or after their end": {
			[]table.Pin{between(prefer("c"), time.Nanosecond, time.Hour), between(avoid("a"), -time.Hour, 0)}, "abc", false, nil, "--"},
		"an Avoid that is over does not rest an Only's choice": {
			[]table.Pin{only("a"), between(avoid("a"), -time.Hour, 0)}, "a", true, []string{"b", "c"}, "A-"},
		"nor does a newer Avoid of another, or a newer preference": {
			[]table.Pin{only("a"), avoid("b"), prefer("a")}, "a", true, []string{"b", "c"}, "AAA"},
		"an Only that is over supersedes nothing": {
			[]table.Pin{only("a"), between(only("b"), -2*time.Hour, -time.Hour)}, "a", true, []string{"b", "c"}, "A-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			route := &table.Route{Chain: []table.Backend{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Pins: tc.pins}
			order, filtered, pinned := Order(route, now, []int{0, 1, 2})
			if got := names(route, order); got != tc.wantOrder {
				t.Errorf("order %q, want %q", got, tc.wantOrder)
			}
			if len(order)+len(filtered) != 3 {
				t.Errorf("%d in order and %d filtered", len(order), len(filtered))
			}
			if pinned != tc.wantPinned {
				t.Errorf("pinned %v, want %v", pinned, tc.wantPinned)
			}
			if diff := cmp.Diff(tc.wantRested, Resting(route, now)); diff != "" {
				t.Errorf("rested (-want +got):\n%s", diff)
			}
			if got := letters(States(route, now)); got != tc.wantStates {
				t.Errorf("states %q, want %q", got, tc.wantStates)
			}
		})
	}
}

// Where there is nothing to move behind, no pin has decided anything.
func TestAnAvoidOfTheOnlyOneDecidesNothing(t *testing.T) {
	route := &table.Route{Chain: []table.Backend{{Name: "a"}}, Pins: []table.Pin{avoid("a")}}
	if order, _, pinned := Order(route, now, []int{0}); names(route, order) != "a" || pinned {
		t.Errorf("order %v, pinned %v", order, pinned)
	}
}

func TestNextEdge(t *testing.T) {
	on := func(from, to time.Duration) table.Pin { return between(prefer("a"), from, to) }
	cases := map[string]struct {
		pins []table.Pin
		want time.Time
	}{
		"no pin":            {nil, time.Time{}},
		"a pin that is on":  {[]table.Pin{on(-time.Hour, time.Hour)}, now.Add(time.Hour)},
		"one that is over":  {[]table.Pin{on(-time.Hour, 0)}, time.Time{}},
		"the first of many": {[]table.Pin{on(-time.Hour, 2*time.Hour), on(time.Minute, time.Hour)}, now.Add(time.Minute)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NextEdge(&table.Route{Pins: tc.pins}, now); !got.Equal(tc.want) {
				t.Errorf("edge = %s, want %s", got, tc.want)
			}
		})
	}
}

func names(route *table.Route, order []int) (s string) {
	for _, at := range order {
		s += route.Chain[at].Name
	}
	return s
}

func letters(states []State) (s string) {
	for _, st := range states {
		switch {
		case st.NoBackend:
			s += "N"
		case st.Superseded:
			s += "S"
		case st.Active:
			s += "A"
		default:
			s += "-"
		}
	}
	return s
}
