package openai

import (
	"net/http"
	"time"
)

// MaxRetryAfter bounds what a backend may ask for.
const MaxRetryAfter = 24 * time.Hour

// ParseRetryAfter reads how long a backend asks to be left alone, from the response's header and the time of its
// arrival: retry-after-ms, Retry-After in (fractional) seconds or as a date, then x-ratelimit-reset-requests and
// -tokens, of which the later counts. The result lies within [0, MaxRetryAfter]. What cannot be parsed is absent.
func ParseRetryAfter(h http.Header, now time.Time) (time.Duration, bool) { panic("todo") }
