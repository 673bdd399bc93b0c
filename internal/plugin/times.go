package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// moment writes instants for people, as seen from now in their zone.
type moment struct {
	now  time.Time
	zone *time.Location
	full bool // RFC 3339, for -o wide
}

// moment is now.
func (c *cli) moment(full bool) moment {
	return moment{now: c.Clock.Now(), zone: c.Zone, full: full}
}

// none stands for what is not there.
const none = "-"

// at is the instant, with the date where it is another day, and how far away it is: "23:00:00 (in 3h)".
func (m moment) at(t time.Time) string {
	switch {
	case t.IsZero():
		return none
	case m.full:
		return t.In(m.zone).Format(time.RFC3339)
	default:
		return m.clock(t) + " (" + m.distance(t) + ")"
	}
}

// clock is the instant without the distance.
func (m moment) clock(t time.Time) string {
	here, now := t.In(m.zone), m.now.In(m.zone)
	if here.YearDay() == now.YearDay() && here.Year() == now.Year() {
		return here.Format("15:04:05")
	}
	if here.Year() == now.Year() {
		return here.Format("Jan 2 15:04:05")
	}
	return here.Format("2006-01-02 15:04:05")
}

// distance is "in 3h", "5m ago" or "now".
func (m moment) distance(t time.Time) string {
	switch d := t.Sub(m.now); {
	case d >= time.Second:
		return "in " + span(d)
	case d <= -time.Second:
		return span(-d) + " ago"
	default:
		return "now"
	}
}

// span is a length of time in the units that matter: "45s", "15m", "1h45m", "26h", "7d".
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= time.Minute {
		d = d.Round(time.Minute) // 3h that began a moment ago are still 3h
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 10*time.Hour && d%time.Hour >= time.Minute:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/day)
	}
}

// of is at for an optional instant of an object.
func (m moment) of(t *metav1.Time) string {
	if t == nil {
		return none
	}
	return m.at(t.Time)
}

var instantInText = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// localize turns the instants in a text of the status into the person's own.
func (m moment) localize(text string) string {
	return instantInText.ReplaceAllStringFunc(text, func(found string) string {
		t, err := time.Parse(time.RFC3339, found)
		if err != nil {
			return found
		}
		return m.at(t)
	})
}

// layouts of a time without a zone; the first is a time of day.
var layouts = []string{"15:04", "15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"}

var errTime = errors.New("want a time of day such as 23:00, a date and time such as 2026-12-31 23:00, or RFC 3339 such as 2026-12-31T23:00:00Z")

// parseTime reads what a person means by a time. A time of day is the next one after the given instant; what has no zone
// is in theirs.
func parseTime(text string, after time.Time, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range layouts {
		t, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if t.Year() == 0 { // a time of day alone
			t = nextOfDay(t, after.In(zone))
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time: %w", text, errTime)
}

// nextOfDay is the first instant after `after` at that time of day, whatever a change of clocks does to the day's length.
func nextOfDay(clock, after time.Time) time.Time {
	year, month, day := after.Date()
	for ; ; day++ {
		t := time.Date(year, month, day, clock.Hour(), clock.Minute(), clock.Second(), 0, after.Location())
		if t.After(after) {
			return t
		}
	}
}
