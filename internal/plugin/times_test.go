package plugin

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("this machine has no time zones: ", err)
	}
	evening := time.Date(2026, 8, 13, 21, 15, 0, 0, berlin)
	beforeChange := time.Date(2026, 10, 24, 22, 0, 0, 0, berlin) // clocks go back in the night that follows
	beforeSpring := time.Date(2026, 3, 28, 22, 0, 0, 0, berlin)  // and forward in this one
	cases := map[string]struct {
		text  string
		after time.Time
		want  string // empty: an error
	}{
		"a time of day that is still to come is today's":    {"23:00", evening, "2026-08-13T23:00:00+02:00"},
		"one that has passed is tomorrow's":                 {"20:00", evening, "2026-08-14T20:00:00+02:00"},
		"this very minute is tomorrow's":                    {"21:15", evening, "2026-08-14T21:15:00+02:00"},
		"midnight is the next one":                          {"00:00", evening, "2026-08-14T00:00:00+02:00"},
		"a night in which the clocks go back":               {"06:00", beforeChange, "2026-10-25T06:00:00+01:00"},
		"an hour that the clocks leave out is an hour near": {"02:30", beforeSpring, "2026-03-29T03:30:00+02:00"},
		"a date and a time are the person's own":            {"2026-12-24 18:30", evening, "2026-12-24T18:30:00+01:00"},
		"RFC 3339 says its zone":                            {"2026-08-13T23:00:00Z", evening, "2026-08-14T01:00:00+02:00"},
		"an hour that no day has":                           {"25:00", evening, ""},
		"a date alone":                                      {"2026-08-13", evening, ""},
		"nothing":                                           {"", evening, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseTime(tc.text, tc.after, berlin)
			if (err != nil) != (tc.want == "") {
				t.Fatalf("error %v", err)
			}
			if err == nil && got.In(berlin).Format(time.RFC3339) != tc.want {
				t.Errorf("got %s, want %s", got.In(berlin).Format(time.RFC3339), tc.want)
			}
		})
	}
}

func TestMoments(t *testing.T) {
	m := moment{now: now, zone: zone}
	cases := map[string]struct {
		at   time.Time
		want string
	}{
		"soon":                        {now.Add(45 * time.Second), "21:15:45 (in 45s)"},
		"this instant":                {now, "21:15:00 (now)"},
		"a while ago":                 {now.Add(-15 * time.Minute), "21:00:00 (15m ago)"},
		"hours":                       {now.Add(105 * time.Minute), "23:00:00 (in 1h45m)"},
		"whole hours":                 {now.Add(2 * time.Hour), "23:15:00 (in 2h)"},
		"another day":                 {now.Add(26 * time.Hour), "Aug 14 23:15:00 (in 26h)"},
		"a week":                      {now.Add(7 * 24 * time.Hour), "Aug 20 21:15:00 (in 7d)"},
		"another year":                {now.AddDate(1, 0, 0), "2027-08-13 21:15:00 (in 365d)"},
		"no time at all":              {time.Time{}, "-"},
		"the same clock, another day": {now.Add(-24 * time.Hour), "Aug 12 21:15:00 (24h ago)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := m.at(tc.at); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
