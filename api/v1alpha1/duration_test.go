package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

func TestDurationParse(t *testing.T) {
	for name, tc := range map[string]struct {
		text Duration
		want time.Duration
		bad  bool
	}{
		"milliseconds are a span":                 {text: "250ms", want: 250 * time.Millisecond},
		"units add up":                            {text: "1h30m", want: 90 * time.Minute},
		"units may come in any order":             {text: "1s1h", want: time.Hour + time.Second},
		"zero has a unit":                         {text: "0s"},
		"the largest that fits does not overflow": {text: "99999h99999h99999h99999h", want: 4 * 99999 * time.Hour},
		"nothing is no span":                      {text: "", bad: true},
		"a number without a unit is no span":      {text: "30", bad: true},
		"zero without a unit is no span":          {text: "0", bad: true},
		"a fraction is refused":                   {text: "1.5s", bad: true},
		"a sign is refused":                       {text: "-1s", bad: true},
		"a plus is refused":                       {text: "+1s", bad: true},
		"days are refused":                        {text: "1d", bad: true},
		"microseconds are refused":                {text: "1us", bad: true},
		"six digits are refused":                  {text: "100000h", bad: true},
		"five parts are refused":                  {text: "1h1m1s1ms1ms", bad: true},
		"space around is refused":                 {text: " 1s", bad: true},
		"a line break behind is refused":          {text: "1s\n", bad: true},
		"a very long text is refused in short":    {text: Duration(strings.Repeat("9", 1<<20)), bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.text.Parse()
			if (err != nil) != tc.bad {
				t.Fatalf("error %v, want one: %v", err, tc.bad)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestFormatDuration(t *testing.T) {
	for name, tc := range map[string]struct {
		span time.Duration
		want Duration
	}{
		"nothing has a unit":                   {0, "0s"},
		"a negative span is nothing":           {-time.Second, "0s"},
		"units that are zero are left out":     {time.Hour + time.Millisecond, "1h1ms"},
		"all units":                            {25*time.Hour + time.Minute + 2*time.Second + 3*time.Millisecond, "25h1m2s3ms"},
		"a rest is rounded up":                 {14*time.Minute + 59*time.Second + 999*time.Millisecond + 1, "15m"},
		"a single nanosecond is a millisecond": {1, "1ms"},
		"the longest span ends at the bound":   {1<<63 - 1, "99999h"},
	} {
		t.Run(name, func(t *testing.T) {
			got := FormatDuration(tc.span)
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if back, err := got.Parse(); err != nil || back < min(tc.span, 99999*time.Hour) {
				t.Errorf("it reads back as %s, %v", back, err)
			}
		})
	}
}
