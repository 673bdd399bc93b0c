package openai

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter bounds what a backend may ask for.
const MaxRetryAfter = 24 * time.Hour

// resetHeaders tell when a limit is full again; a backend may send one for each kind of limit.
var resetHeaders = [...]string{
	"X-Ratelimit-Reset-Requests",
	"X-Ratelimit-Reset-Tokens",
	"Anthropic-Ratelimit-Requests-Reset",
	"Anthropic-Ratelimit-Tokens-Reset",
}

// ParseRetryAfter reads how long a backend asks to be left alone, from the response's header and the time of its
// arrival: retry-after-ms, Retry-After in (fractional) seconds or as a date, then x-ratelimit-reset-requests and
// -tokens (and Anthropic's names for them), of which the later counts. The result lies within [0, MaxRetryAfter]. What
// cannot be parsed is absent.
func ParseRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := explicitRetryAfter(h, now); ok {
		return d, true
	}
	var latest time.Duration
	found := false
	for _, name := range resetHeaders {
		if d, ok := longest(h[name], now, time.Second); ok {
			latest, found = max(latest, d), true
		}
	}
	return latest, found
}

// explicitRetryAfter reads only what asks for a pause in so many words. The reset headers also stand in answers that
// have nothing to do with a limit.
func explicitRetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := longest(h["Retry-After-Ms"], now, time.Millisecond); ok {
		return d, true
	}
	return longest(h["Retry-After"], now, time.Second)
}

// longest parses all values of a header and returns the longest: one of two proxies on the way may have added its own.
func longest(values []string, now time.Time, unit time.Duration) (time.Duration, bool) {
	var out time.Duration
	found := false
	take := func(v string) bool {
		d, ok := parseWait(strings.TrimSpace(v), now, unit)
		if ok {
			out, found = max(out, d), true
		}
		return ok
	}
	for _, v := range values {
		if take(v) {
			continue
		}
		for part := range strings.SplitSeq(v, ",") { // HTTP lets anybody on the way join them
			take(part)
		}
	}
	return out, found
}

// parseWait reads a plain number of units, a duration such as 6m0s, or a date.
func parseWait(v string, now time.Time, unit time.Duration) (time.Duration, bool) {
	if v == "" {
		return 0, false
	}
	if strings.Trim(v, "+-.0123456789") == "" { // keeps out nan, inf, hexadecimal and exponents
		n, err := strconv.ParseFloat(v, 64)
		if err != nil && !math.IsInf(n, 0) {
			return 0, false
		}
		return clampSeconds(n * unit.Seconds()), true
	}
	if d, err := time.ParseDuration(v); err == nil {
		return clampSeconds(d.Seconds()), true
	}
	for _, parse := range [...]func(string) (time.Time, error){http.ParseTime, parseISO} {
		if at, err := parse(v); err == nil {
			return clampSeconds(at.Sub(now).Seconds()), true
		}
	}
	return 0, false
}

func parseISO(v string) (time.Time, error) { return time.Parse(time.RFC3339, v) }

// clampSeconds converts with care: a float beyond the range of a Duration has no defined value as one.
func clampSeconds(s float64) time.Duration {
	return time.Duration(min(max(s, 0), MaxRetryAfter.Seconds()) * float64(time.Second))
}
